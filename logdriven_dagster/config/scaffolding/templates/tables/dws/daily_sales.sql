-- ods.orders holds only the orders of this window here: what `read: window` (the default) means.
SELECT
    CAST(:data_range_start AS DATE) AS day,
    customers.country,
    count(*) AS orders,
    sum(orders.amount) AS revenue
FROM ods.orders AS orders
JOIN ods.customers AS customers ON customers.customer_id = orders.customer_id
GROUP BY customers.country
