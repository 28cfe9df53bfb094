-- Compute the integer mass per cell from heathaze_part(unit, x, y, amount), the visits of some units. DuckDB and Spark
-- run the same text; count.py changes it in three places if visits have weights (amount). All numbers are parameters,
-- in the order of count.py. The answer has one row for each non-empty cell, a row with cell -1 and the mass of visits
-- that have no cell, and a row with cell -2 and the largest mass of any unit.
with located as (
    -- position in cells, by the same operations as Grid.down and Grid.across, in the same order
    select
        unit,
        case
            -- logarithms of engines differ in the last bit, so round to 2^-26 of a cell, as Grid.cell_of does
            when ? then floor((ln(tan(? + y * ?)) - ?) * ? * 67108864e0 + 0.5) / 67108864e0
            else (y - ?) * ?
        end as down,
        (x - ?) * ? as across,
        amount
    from heathaze_part
    where x >= ? and x <= ? and y >= ? and y <= ?
),

placed as (
    -- the last border belongs to the last cell; NaN is not below any number, so a NaN position never gets a cell
    select
        unit,
        amount,
        case when down < 1 then 0 when down < ? then cast(floor(down) as bigint) when down < ? then ? end * ?
        + case when across < 1 then 0 when across < ? then cast(floor(across) as bigint) when across < ? then ? end
        as cell
    from located
),

-- the only aggregation over all units: the number of visits of each unit in each cell
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

-- units with more cells than the limit, each with a seed of nine digits from md5(salt|unit)
heavy as (
    select
        unit as heavy_unit,
        cells,
        cast(translate(substr(md5(? || '|' || cast(unit as string)), 1, 9), 'abcdef', '012345') as bigint) as seed
    from units
    where cells > ?
),

-- draw = ((cell + seed)^2 + seed)^2 mod p with p = 2^31 - 1 gives a public order of the cells for each unit, which does
-- not depend on other units; an md5 for every cell would double the time of the query
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

-- sort only cells that can be among the first k: draws are uniform from 0 to p, so the k smallest lie below
-- (k + margin) p / cells; the sort key is one integer, the upper 23 bits of the draw above the 40 bits of the cell, so
-- no two keys are equal and the key contains the cell
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
    -- abs does not change the value, but prevents DuckDB from using a slower heap for each unit instead of a sort
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

-- weight share: floor(M part / whole), computed exactly because the numerator is a multiple of the divisor;
-- weight presence: 1
weighted as (
    select
        unit, cell,
        case
            when ? then cast(floor((part * ? - part * ? % whole) / whole + 0.5) as bigint)
            else cast(1 as bigint)
        end as mass
    from parts
)

-- mass per cell, and the largest mass of a unit, with which count.py checks the sensitivity (errata X6)
select coalesce(cell, -1 - of_unit) as cell, max(mass) as mass
from (
    select cell, grouping(cell) as of_unit, cast(sum(mass) as bigint) as mass
    from weighted
    group by grouping sets ((cell), (unit))
) as sums
group by cell, of_unit
