SELECT
  f.time_hour,
  f.carrier,
  airline.name AS airline,
  f.flight,
  f.tailnum,
  plane.manufacturer,
  plane.seats,
  f.origin,
  f.dest,
  airport.name AS destination,
  f.distance,
  f.dep_delay,
  f.arr_delay,
  f.dep_time IS NULL AS cancelled,
  w.temp,
  w.wind_speed,
  w.precip,
  w.visib
FROM ods.flights AS f
LEFT JOIN ods.weather AS w ON w.origin = f.origin AND w.time_hour = f.time_hour
LEFT JOIN ods.airlines AS airline ON airline.carrier = f.carrier
LEFT JOIN ods.planes AS plane ON plane.tailnum = f.tailnum
LEFT JOIN ods.airports AS airport ON airport.faa = f.dest
