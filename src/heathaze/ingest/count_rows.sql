-- Every row is its own unit: visits(x, y) to integer mass per cell, the same places as in count_cells.sql.
with located as (
    select
        case
            when ? then floor((ln(tan(? + y * ?)) - ?) * ? * 67108864e0 + 0.5) / 67108864e0
            else (y - ?) * ?
        end as down,
        (x - ?) * ? as across
    from heathaze_visits
    where x >= ? and x <= ? and y >= ? and y <= ?
    and not isnan(x) and not isnan(y)
),

placed as (
    select cast(greatest(least(floor(down), ?), 0) as bigint) * ? + cast(least(floor(across), ?) as bigint) as cell
    from located
)

select cell, cast(count(*) * ? as bigint) as mass
from placed
group by cell
