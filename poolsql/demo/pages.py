"""The shop's pages: what it sells, and the HTML that shows it. No network here, and the same content every time."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from html import escape

_MATERIALS = ("Oak", "Linen", "Copper", "Felt", "Walnut", "Stoneware")
_THINGS = ("desk tray", "pencil case", "lamp", "coaster", "clock", "vase")


@dataclass(frozen=True, slots=True)
class Product:
    """One thing that the shop sells."""

    number: int
    """From 1."""
    name: str
    price: Decimal
    """Euros."""
    stock: int
    """Pieces; 0 is sold out."""

    @property
    def price_text(self) -> str:
        """The price as the pages show it: ``€24.90``."""
        return f"€{self.price:.2f}"

    @property
    def stock_text(self) -> str:
        """The stock as the pages show it."""
        return f"In stock: {self.stock}" if self.stock else "Sold out"


def product(number: int) -> Product:
    """The product with this number; names repeat after 36 with a mark."""
    index = number - 1
    edition, place = divmod(index, len(_MATERIALS) * len(_THINGS))
    name = f"{_MATERIALS[place % len(_MATERIALS)]} {_THINGS[(place // len(_MATERIALS) + place) % len(_THINGS)]}"
    return Product(
        number=number,
        name=f"{name} No. {edition + 1}" if edition else name,
        # Steps that share no factor with the range spread the values without any randomness.
        price=Decimal(490 + (index * 737 % 9000) // 10 * 10) / 100,
        stock=(index * 7 + 5) % 24,
    )


def listing_page(products: list[Product], *, page: int, pages: int) -> str:
    """One page of the catalogue with links to its products and to its neighbours."""
    cards = "".join(
        f'<li class="card"><a href="/product/{item.number}">{_picture(item)}'
        f"<strong>{escape(item.name)}</strong></a>"
        f'<span class="price">{item.price_text}</span><span class="{_stock_class(item)}">{item.stock_text}</span></li>'
        for item in products
    )
    links = [
        f'<a rel="prev" href="/?page={page - 1}">← Back</a>' if page > 1 else "<span></span>",
        f"<span>Page {page} of {pages}</span>",
        f'<a rel="next" href="/?page={page + 1}">More →</a>' if page < pages else "<span></span>",
    ]
    body = f'<h1>Everything for the desk</h1><ul class="grid">{cards}</ul><nav class="pager">{"".join(links)}</nav>'
    return page_html("The desk shop" if page == 1 else f"The desk shop, page {page}", body)


def product_page(item: Product) -> str:
    """One product: its name in `h1`, ``.price`` and ``.stock``."""
    body = (
        f'<article class="product">{_picture(item)}<div><h1>{escape(item.name)}</h1>'
        f'<p class="price">{item.price_text}</p><p class="{_stock_class(item)}">{item.stock_text}</p>'
        f"<p>Made to be used every day. Item {item.number:03d}.</p>"
        f'<p><a href="/">All products</a></p></div></article>'
    )
    return page_html(item.name, body)


def message_page(heading: str, text: str, *, title: str | None = None) -> str:
    """A page that says one thing; `text` is plain text."""
    return page_html(title or heading, f"<h1>{escape(heading)}</h1><p>{escape(text)}</p>")


def visitor_page(received: str | None) -> str:
    """Shows in ``#visitor`` the cookie that the request brought."""
    shown = escape(received) if received else "none"
    body = (
        "<h1>Welcome</h1><p>The cookie that your browser brought: "
        f'<code id="visitor">{shown}</code></p><p>A browser with its own profile brings it again next time.</p>'
    )
    return page_html("Welcome", body)


def captcha_page() -> str:
    """A wall that asks whether a person is there. Nothing in it can be solved: poolsql stops at it."""
    body = (
        "<h1>Verify you are human</h1><p>This shop wants to be sure that a person is looking.</p>"
        '<form id="captcha" data-captcha="demo"><label class="box"><input type="checkbox" disabled> I am human'
        "</label></form>"
    )
    return page_html("Verify you are human", body)


def page_html(title: str, body: str) -> str:
    """A whole document around `body`, which is HTML."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        # An icon without an address: browsers would ask for /favicon.ico on their own.
        '<link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
        '<header><a href="/">The desk shop</a><span>a local demo, nothing is for sale</span></header>'
        f"<main>{body}</main></body></html>"
    )


def _picture(item: Product) -> str:
    hue = item.number * 47 % 360
    return f'<span class="picture" style="--hue:{hue}" aria-hidden="true">{escape(item.name[0])}</span>'


def _stock_class(item: Product) -> str:
    return "stock" if item.stock else "stock out"


_STYLE = """
:root { color-scheme: light dark; --ink: #1d2530; --soft: #5c6775; --paper: #f6f5f2; --card: #fff; --line: #e2dfd8;
  --link: #1f5fae; --bad: #a8321e; --picture: 86%; --letter: 32% }
@media (prefers-color-scheme: dark) { :root { --ink: #e9ecf0; --soft: #9aa5b3; --paper: #14181d; --card: #1d2329;
  --line: #2d353e; --link: #86b7f5; --bad: #f0927f; --picture: 26%; --letter: 78% } }
* { box-sizing: border-box }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif }
header, main { max-width: 60rem; margin: 0 auto; padding: 1rem 1.25rem }
header { display: flex; flex-wrap: wrap; gap: .25rem 1rem; align-items: baseline; justify-content: space-between }
header a { font-weight: 700; color: inherit; text-decoration: none }
header span { color: var(--soft); font-size: .875rem }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 1rem; text-wrap: balance }
a { color: var(--link) }
.grid { list-style: none; margin: 0; padding: 0; display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(12.5rem, 45%), 1fr)) }
.card { background: var(--card); border: 1px solid var(--line); border-radius: .75rem; padding: .75rem;
  display: flex; flex-direction: column; gap: .125rem }
.card a { color: inherit; text-decoration: none }
.card a:hover strong { text-decoration: underline }
.picture { display: grid; place-items: center; aspect-ratio: 4 / 3; margin-bottom: .5rem; border-radius: .5rem;
  font: 600 2.5rem/1 Georgia, serif; color: hsl(var(--hue) 40% var(--letter));
  background: hsl(var(--hue) 40% var(--picture)) }
.price { font-weight: 600; font-variant-numeric: tabular-nums }
.stock { color: var(--soft); font-size: .875rem }
.stock.out { color: var(--bad) }
.pager { display: flex; justify-content: space-between; gap: 1rem; margin: 1.5rem 0; color: var(--soft) }
.product { display: grid; gap: 1.5rem; grid-template-columns: repeat(auto-fit, minmax(min(16rem, 100%), 1fr)) }
.product .price { font-size: 1.3rem; margin: 0 }
.product .stock { margin: 0 0 1rem }
.box { display: inline-flex; gap: .75rem; align-items: center; padding: 1rem 1.25rem; border-radius: .5rem;
  border: 1px solid var(--line); background: var(--card) }
code { padding: .1rem .35rem; border-radius: .25rem; background: var(--card); border: 1px solid var(--line) }
"""
