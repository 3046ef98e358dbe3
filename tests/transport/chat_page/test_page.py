"""The chat page as the server sends it: its files and headers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from asgi_client import Client, serving

from torvyn.engine import Scripted
from torvyn.transport.http import page as page_module
from torvyn.transport.http.page import INDEX, NAMES

FOLDER = Path(page_module.__file__).with_name("page_files")


async def get(path: str, **headers: str) -> Client:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await Client(serving(Scripted("x")), path, method="GET", headers=named)


@pytest.mark.parametrize("path", ["/", "/assets/main.js", "/assets/page.css", "/assets/icon.svg"])
async def test_no_file_of_the_page_may_load_or_run_anything_from_elsewhere(path: str) -> None:
    client = await get(path)

    policy = dict(
        part.split(" ", 1) for part in client.headers["content-security-policy"].split("; ")
    )
    assert client.status == 200
    assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert client.headers["x-content-type-options"] == "nosniff"
    assert client.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/assets/main.js", "text/javascript; charset=utf-8"),
        ("/assets/page.css", "text/css; charset=utf-8"),
        ("/assets/icon.svg", "image/svg+xml"),
    ],
)
async def test_each_file_has_its_content_type(path: str, kind: str) -> None:
    assert (await get(path)).headers["content-type"] == kind


async def test_a_browser_keeps_a_file_until_it_has_changed() -> None:
    first = await get("/assets/main.js")
    again = await get("/assets/main.js", if_none_match=first.headers["etag"])
    other = await get("/assets/page.css", if_none_match=first.headers["etag"])

    assert first.headers["cache-control"] == "no-cache"
    assert (again.status, again.body) == (304, b"")
    assert other.status == 200


@pytest.mark.parametrize(
    "name",
    [
        "",
        "index.html",
        "none.js",
        "../page.py",
        "../../../../../../etc/passwd",
        "/etc/passwd",
        "..%2fpage.py",
        "main.js/",
        "main.js\x00.css",
        "MAIN.JS",
    ],
)
async def test_nothing_but_the_files_of_the_page_is_given_out(name: str) -> None:
    client = await get(f"/assets/{name}")

    assert client.status == 404
    assert client.json["error"]["code"] == "transport.route-unknown"


async def test_the_page_cannot_be_posted_to() -> None:
    client = await Client(serving(Scripted("x")), "/", method="POST")

    assert (client.status, client.headers["allow"]) == (405, "GET, HEAD")


def test_every_file_that_is_there_is_given_out() -> None:
    assert {file.name for file in FOLDER.iterdir()} == {*NAMES, INDEX}


@pytest.mark.parametrize("name", [INDEX, *NAMES])
def test_no_file_names_another_place_or_has_code_where_the_policy_forbids_it(name: str) -> None:
    text = (FOLDER / name).read_text()
    places = re.findall(
        r"""(?:src|href|from|import|url)\s*[=(]?\s*["'](?:https?:)?//[^"']*""", text
    )

    assert places == []
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text)
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?! type=\"module\" src=)", text)
