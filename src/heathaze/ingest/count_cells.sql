-- From part(unit, x, y), the visits of some units, to integer mass per cell. One text, read alike by DuckDB and Spark; every number is bound, in the
-- order of count.py. Rows of the answer: one per non-empty cell; cell -1 with the mass of visits that have no cell; cell -2
-- with the largest mass any unit has.
with located as (
    -- position in cells, the operations of Grid.down and Grid.across in their order
    select
        unit,
        case
            -- engines' logarithms differ in the last bit: snap to 2^-26 of a cell, as Grid.cell_of does
            when ? then floor((ln(tan(? + y * ?)) - ?) * ? * 67108864e0 + 0.5) / 67108864e0
            else (y - ?) * ?
        end as down,
        (x - ?) * ? as across
    from heathaze_part
    where x >= ? and x <= ? and y >= ? and y <= ?
),

placed as (
    -- the last border belongs to the last cell; NaN is below nothing, so it would have no cell even if the box let it pass
    select
        unit,
        case when down < 1 then 0 when down < ? then cast(floor(down) as bigint) when down < ? then ? end * ?
        + case when across < 1 then 0 when across < ? then cast(floor(across) as bigint) when across < ? then ? end
        as cell
    from located
),

-- the one aggregation over everybody: (unit, cell, visits)
binned as (
    select unit, cell, count(*) as visits
    from placed
    group by unit, cell
),

units as (
    select unit, cast(sum(visits) as bigint) as visits, count(*) as cells
    from binned
    group by unit
),

-- those over the limit, each with a number of nine digits out of md5(salt|unit)
heavy as (
    select
        unit as heavy_unit,
        cells,
        cast(translate(substr(md5(? || '|' || cast(unit as string)), 1, 9), 'abcdef', '012345') as bigint) as seed
    from units
    where cells > ?
),

-- draw = ((cell + seed)^2 + seed)^2 mod p with p = 2^31 - 1: a public order of the cells, another for every unit, that
-- knows nothing of other units; md5 for every cell would cost as much as all the rest
stirred as (
    select
        unit, cell, visits, cells, seed,
        (cell + seed) % 2147483647 * ((cell + seed) % 2147483647) % 2147483647 as once
    from binned
    inner join heavy on unit = heavy_unit
),

drawn as (
    select
        unit, cell, visits, cells,
        (once + seed) % 2147483647 * ((once + seed) % 2147483647) % 2147483647 as draw
    from stirred
),

-- sort only what can be among the first: draws are even over 0 to p, so the first k lie below (k + margin) p / cells;
-- by one integer, the draw's upper 23 bits over the cell's 40: no two are equal, and nothing else need be carried along
ordered as (
    select unit, visits, (draw - draw % 256) * 4294967296 + cell as drawn_cell
    from drawn
    where draw * cells <= ?
),

ranked as (
    select unit, visits, drawn_cell, row_number() over (partition by unit order by drawn_cell) as place
    from ordered
),

kept as (
    -- abs changes nothing, but keeps DuckDB from replacing the sort by a slower heap per unit
    select unit, drawn_cell % 1099511627776 as cell, visits
    from ranked
    where abs(place) <= ?
),

kept_units as (
    select unit, cast(sum(visits) as bigint) as visits
    from kept
    group by unit
),

parts as (
    select binned.unit, binned.cell, binned.visits as part, units.visits as whole
    from binned
    inner join units on binned.unit = units.unit
    where units.cells <= ?
    union all
    select kept.unit, kept.cell, kept.visits as part, kept_units.visits as whole
    from kept
    inner join kept_units on kept.unit = kept_units.unit
),

-- share: floor(M part / whole), exact: the numerator is a multiple of the divisor; presence: 1
weighted as (
    select
        unit, cell,
        case
            when ? then cast(floor((part * ? - part * ? % whole) / whole + 0.5) as bigint)
            else cast(1 as bigint)
        end as mass
    from parts
)

-- mass per cell, and per unit the sensitivity, asserted on the integers themselves (errata X6)
select coalesce(cell, -1 - of_unit) as cell, max(mass) as mass
from (
    select cell, grouping(cell) as of_unit, cast(sum(mass) as bigint) as mass
    from weighted
    group by grouping sets ((cell), (unit))
) as sums
group by cell, of_unit
