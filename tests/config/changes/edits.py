"""Edits of queries as people write them in dbt and SQLMesh, each with its true class.

`python -m tests.config.changes.edits` writes docs/evidence/changes.md.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from logdriven_dagster.config.changes.fields import Effect
from logdriven_dagster.config.changes.queries import compare_queries

_PUBLIC = (
    "The same edits can be made of the queries of any dbt or SQLMesh project:",
    "",
    "```console",
    "$ python -m tests.config.changes.public_queries FOLDER",
    "```",
    "",
    "On 28 November 2026, with 377 queries of dbt-labs/jaffle-shop, fivetran/dbt_shopify,",
    "tuva-health/tuva, cal-itp/data-infra, TobikoData/sqlmesh and TobikoData/sqlmesh-examples,",
    "3,519 of 3,873 edits have exactly the right class, and 353 a larger one. One has a smaller",
    "class than the list says, and rightly: a mean for a sum keeps the type of a column that is",
    "cast to DOUBLE.",
)
PAGE = Path(__file__).resolve().parents[3] / "docs/evidence/changes.md"

QUERIES = {
    "customers": """
with customers as (select * from ods.customers),
orders as (select id as order_id, user_id as customer_id, order_date, status from ods.orders),
customer_orders as (
    select customer_id, min(order_date) as first_order, max(order_date) as last_order,
           count(order_id) as number_of_orders
    from orders
    where status <> 'returned'
    group by customer_id
)
select c.customer_id, c.first_name, o.first_order, o.last_order,
       coalesce(o.number_of_orders, 0) as number_of_orders
from customers c
left join customer_orders o on c.customer_id = o.customer_id
where c.active = 1
""",
    "order payments": """
SELECT o.order_id, o.order_date, CAST(o.order_date AS DATE) AS day,
       SUM(CASE WHEN p.method = 'card' THEN p.amount ELSE 0 END) AS card_amount,
       SUM(p.amount) AS total_amount
FROM ods.orders o
JOIN ods.payments p ON o.order_id = p.order_id
WHERE p.status = 'paid' AND o.order_date >= :data_range_start
GROUP BY o.order_id, o.order_date
""",
    "daily delay": """
SELECT origin, CAST(scheduled AS DATE) AS day, COUNT(*) AS flights,
       SUM(CASE WHEN dep_delay > 15 THEN 1 ELSE 0 END) AS delayed,
       AVG(dep_delay) AS avg_delay
FROM ods.flights f
WHERE cancelled = 0 AND dep_delay IS NOT NULL
GROUP BY origin, CAST(scheduled AS DATE)
""",
    "latest row": """
SELECT id, name, upper(country) AS country, updated_at
FROM (
    SELECT id, name, country, updated_at,
           ROW_NUMBER() OVER (PARTITION BY id ORDER BY updated_at DESC) AS rn
    FROM ods.users u
    WHERE deleted = 0
) ranked
WHERE rn = 1
""",
    "sessions": """
WITH events AS (
    SELECT user_id, event_time, page,
           LAG(event_time) OVER (PARTITION BY user_id ORDER BY event_time) AS previous
    FROM ods.events e
    WHERE bot = 0
),
marked AS (
    SELECT user_id, event_time, page,
           CASE WHEN previous IS NULL OR event_time > previous + INTERVAL 30 MINUTES
                THEN 1 ELSE 0 END AS is_new
    FROM events
)
SELECT user_id, event_time, page,
       SUM(is_new) OVER (PARTITION BY user_id ORDER BY event_time) AS session
FROM marked
""",
    "union": """
SELECT id, 'eu' AS region, amount FROM eu.sales WHERE amount > 0
UNION ALL
SELECT id, 'us' AS region, amount FROM us.sales WHERE amount > 0
""",
    "items": """
SELECT o.order_id, i.item.sku AS sku, i.item.quantity AS quantity, o.placed_at
FROM ods.orders o
LATERAL VIEW EXPLODE(o.items) i AS item
WHERE o.placed_at >= :data_range_start AND i.item.quantity > 0
""",
    "distinct": """
SELECT DISTINCT customer_id, lower(email) AS email
FROM ods.contacts c
WHERE email LIKE '%@%' AND consent = 1
""",
    "star": """
SELECT o.*, c.country
FROM ods.orders o
LEFT JOIN ods.customers c ON o.customer_id = c.customer_id
WHERE o.amount > 10
""",
    "semi join": """
SELECT p.product_id, p.title, p.price * 1.2 AS gross, length(p.title) AS size
FROM ods.products p
WHERE p.price > 5 AND EXISTS (SELECT 1 FROM ods.stock s WHERE s.product_id = p.product_id)
""",
    "rolling": """
SELECT day, store, revenue,
       SUM(revenue) OVER (
           PARTITION BY store ORDER BY day ROWS BETWEEN 6 PRECEDING AND CURRENT ROW
       ) AS revenue_7d
FROM dwd.revenue r
WHERE store <> 'test' AND revenue IS NOT NULL
""",
    "funnel": """
SELECT campaign, COUNT(DISTINCT user_id) AS users,
       COUNT(DISTINCT IF(step = 'paid', user_id, NULL)) AS buyers,
       MAX(event_time) AS last_event
FROM dwd.funnel f
WHERE campaign IS NOT NULL AND step IN ('view', 'cart', 'paid')
GROUP BY campaign
HAVING COUNT(*) > 10
""",
}

_KEYWORDS = re.compile(
    r"\b(select|from|where|group by|join|left|as|and|on|with|case|when|then|else|end|sum|count)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Edit:
    """One edit of a query."""

    query: str
    name: str
    effect: Effect
    """The true class."""
    before: str
    after: str

    @property
    def found(self) -> Effect:
        """The class that the product finds."""
        changes = compare_queries(self.before, self.after)
        return max((change.effect for change in changes), default=Effect.COSMETIC)


def _sub(pattern: str, text: str, count: int = 1) -> Callable[[str], str]:
    return lambda query: re.sub(pattern, text, query, count=count, flags=re.IGNORECASE | re.DOTALL)


def _add_column(text: str) -> Callable[[str], str]:
    """Add a column at the end of the outermost SELECT."""

    def edit(query: str) -> str:
        start = query.lower().rindex("\nselect") if "\nselect" in query.lower() else 0
        depth = 0
        for match in re.finditer(r"\(|\)|\bfrom\b", query[start:], re.IGNORECASE):
            depth += {"(": 1, ")": -1}.get(match[0], 0)
            if depth == 0 and match[0].lower() == "from":
                at = start + match.start()
                return f"{query[:at].rstrip()}, {text}\n{query[at:]}"
        return query

    return edit


_C, _A, _V, _G, _S = (
    Effect.COSMETIC,
    Effect.ADDITIVE,
    Effect.VALUES,
    Effect.GRAIN,
    Effect.SHAPE,
)
_EDITS: list[tuple[str, Effect, Callable[[str], str]]] = [
    ("one line", _C, lambda query: " ".join(query.split())),
    ("a comment before", _C, lambda query: f"-- owner: finance\n{query}"),
    ("a comment inside", _C, _sub(r"\n(from|where)", r"\n/* rows */ \1")),
    ("keywords in upper case", _C, lambda query: _KEYWORDS.sub(lambda m: m[0].upper(), query)),
    ("keywords in lower case", _C, lambda query: _KEYWORDS.sub(lambda m: m[0].lower(), query)),
    ("blank lines and tabs", _C, lambda query: query.replace("\n", "\n\n\t")),
    ("a number in a filter", _V, _sub(r"(> |= )(\d+)(?!.*(> |= )\d)", r"\g<1>7\2")),
    ("a text in a filter", _V, _sub(r"(where.*?)'(\w+)'", r"\1'other'")),
    ("a removed condition", _V, _sub(r"where\s+[^\n]*?\band\b", "WHERE")),
    ("an added condition", _V, _sub(r"\bwhere\b(?!.*\bwhere\b)", "WHERE 1 = 2 OR")),
    ("a condition negated", _V, _sub(r"is not null", "IS NULL")),
    ("an operator of a filter", _V, _sub(r"(?<=\w )> (\d)(?!.*> \d)", r">= \1")),
    ("a constant column", _A, _add_column("'v2' AS release")),
    (
        "another name of the first column",
        _S,
        _sub(r"(select(?: distinct)? )(\S+?),", r"\1\2 AS k,"),
    ),
    ("a column less", _S, _sub(r",\s*[^,()]+?(?=\s*from\b)(?!.*\bfrom\b)", "\n")),
    ("DISTINCT added", _G, _sub(r"\nselect (?!distinct)(?!.*\nselect )", "\nSELECT DISTINCT ")),
    ("DISTINCT removed", _G, _sub(r"select distinct", "SELECT")),
    ("a key of GROUP BY less", _G, _sub(r"group by (\w\S*), [^\n]+", r"GROUP BY \1")),
    ("a key of GROUP BY more", _G, _sub(r"group by ", "GROUP BY channel, ")),
    ("an inner join", _G, _sub(r"left join", "JOIN")),
    ("a left join", _G, _sub(r"\njoin", "\nLEFT JOIN")),
    ("another key of a join", _G, _sub(r"( on )(\w+\.\w+) =", r"\1o.other_id =")),
    ("a join more", _G, _sub(r"\nwhere(?!.*\nwhere)", "\nCROSS JOIN dim.rates\nWHERE")),
    ("another source", _S, _sub(r"(ods|dwd|eu)\.(\w+)", r"\1.\2_v2")),
    ("UNION for UNION ALL", _G, _sub(r"union all", "UNION")),
    ("an aggregate of distinct values", _V, _sub(r"count\((\w+)\)", r"COUNT(DISTINCT \1)")),
    ("a mean for a sum", _S, _sub(r"\bsum\(", "AVG(")),
    ("another type of a column", _S, _sub(r"as date\)", "AS STRING)")),
    ("another order of a window", _V, _sub(r"desc\)", "ASC)")),
    ("another frame of a window", _V, _sub(r"6 preceding", "13 PRECEDING")),
    ("a limit", _G, lambda query: f"{query.rstrip()}\nLIMIT 100\n"),
    ("outer explode", _G, _sub(r"lateral view explode", "LATERAL VIEW OUTER EXPLODE")),
    ("another name of a table alias", _C, lambda query: _rename(query, "o", "ord")),
    ("another name of a CTE", _C, lambda query: _rename(query, "marked", "flagged")),
    ("another constant", _V, _sub(r"1\.2", "1.3")),
    ("another threshold in a CASE", _V, _sub(r"> 15", "> 30")),
    ("another function", _V, _sub(r"\b(upper|lower)\(", "initcap(")),
    (
        "another order of conditions",
        _C,
        _sub(r"where (\S+ \S+ \S+) and ([^\n]+)", r"WHERE \2 AND \1"),
    ),
    ("a column before the others", _S, _sub(r"select (distinct )?", r"SELECT \g<1>'x' AS x, ")),
    ("a filter of groups", _V, _sub(r"(having count\(\*\) > )10", r"\g<1>20")),
]


def _rename(query: str, old: str, new: str) -> str:
    if not re.search(rf"\b{old}\b", query):
        return query
    return re.sub(rf"\b{old}\b", new, query)


def list_edits(queries: Mapping[str, str] = QUERIES) -> Iterator[Edit]:
    """Yield the edits that change the text of a query."""
    for query, text in queries.items():
        for name, effect, change in _EDITS:
            after = change(text)
            if after != text:
                yield Edit(query, name, effect, text, after)


def render() -> str:
    """Return the page with the results."""
    edits = list(list_edits())
    exact = sum(edit.found is edit.effect for edit in edits)
    smaller = sum(edit.found < edit.effect for edit in edits)
    summary = (
        f"`logdriven changes` over {len(edits)} edits of {len(QUERIES)} queries: {smaller} have a "
        f"smaller class than they\nshould, {exact} have exactly the right one, and "
        f"{len(edits) - exact - smaller} a larger one. A larger class is found if the\n"
        "smaller one cannot be proven: the types of columns are not known without their tables."
    )
    lines = [
        "# Classes of edited queries",
        "",
        summary,
        "",
        "```console",
        "$ python -m tests.config.changes.edits",
        "```",
        "",
        *_PUBLIC,
        "",
        "| edit | true class | queries | found |",
        "| --- | --- | ---: | --- |",
    ]
    for name, effect, _ in _EDITS:
        found = [edit.found.label for edit in edits if edit.name == name]
        counts = ", ".join(f"{label} {found.count(label)}" for label in dict.fromkeys(found))
        if found:
            lines.append(f"| {name} | {effect.label} | {len(found)} | {counts} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    PAGE.write_text(render())
