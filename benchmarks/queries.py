"""The transforms, as every contestant and the reader run them. Imports nothing."""

FIRST_DAY = "2024-01-01"

MAP = """
SELECT order_id, ordered_at, CAST(ordered_at AS DATE) AS day, customer_id,
  upper(product) AS product, coalesce(country, '??') AS country, amount, quantity,
  CAST(amount * coalesce(quantity, 1) AS DECIMAL(18, 2)) AS revenue,
  CASE WHEN amount >= 100 THEN 'large' WHEN amount >= 20 THEN 'middle' ELSE 'small' END AS size,
  length(note) AS note_length, note, from_web
FROM {source} WHERE {filter}
"""
AGGREGATE = """
SELECT CAST(ordered_at AS DATE) AS day, coalesce(country, '??') AS country, product,
  count(*) AS orders, count(DISTINCT customer_id) AS customers, sum(amount) AS amount,
  sum(CAST(quantity AS BIGINT)) AS quantity, min(ordered_at) AS first_at,
  max(ordered_at) AS last_at
FROM {source} WHERE {filter}
GROUP BY CAST(ordered_at AS DATE), coalesce(country, '??'), product
"""
DIGEST = """
SELECT CAST(ordered_at AS DATE) AS day, coalesce(country, '??') AS country, product,
  count(*) AS orders, sum(amount) AS amount,
  min(md5(md5(concat(CAST(order_id AS STRING), coalesce(note, ''))))) AS first_digest,
  max(md5(md5(concat(coalesce(note, ''), CAST(order_id AS STRING))))) AS last_digest
FROM {source} WHERE {filter}
GROUP BY CAST(ordered_at AS DATE), coalesce(country, '??'), product
"""
TRANSFORMS = {"map": MAP, "aggregate": AGGREGATE, "digest": DIGEST}
"""Name → a query that Spark and DuckDB understand alike; exact, whatever the order of the rows."""
