-- workflow=latest-only
--  period=1440
--  loadType=incremental
--  logDrivenType=timewindow


-- step=1
-- source=temp
-- target=temp
--  tableName=do_nothing_table
SELECT 'success';
