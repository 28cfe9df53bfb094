-- Compute the integer mass per cell if every row is its own unit; cells are located as in count_cells.sql.
with located as (
    select
        case
            when ? then floor((ln(tan(? + y * ?)) - ?) * ? * 67108864e0 + 0.5) / 67108864e0
            else (y - ?) * ?
        end as down,
        (x - ?) * ? as across
    from heathaze_visits
    where x >= ? and x <= ? and y >= ? and y <= ?
),

placed as (
    select
        case when down < 1 then 0 when down < ? then cast(floor(down) as bigint) when down < ? then ? end * ?
        + case when across < 1 then 0 when across < ? then cast(floor(across) as bigint) when across < ? then ? end
        as cell
    from located
)

select coalesce(cell, -1) as cell, cast(count(*) * ? as bigint) as mass
from placed
group by cell
