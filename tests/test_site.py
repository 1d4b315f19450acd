#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests build the site of docs/ without a network, as `mkdocs build --strict` does, and follow its links.

They need Debian's mkdocs and mkdocs-material, and are skipped (77) without them."""
import html.parser
import importlib.util
import pathlib
import re
import subprocess
import sys
import unittest
import urllib.parse

from program import fresh

TOP = pathlib.Path(__file__).resolve().parent.parent
DOCS = TOP / "docs"
MKDOCS = """\
import socket
def refuse(*arguments):
    raise OSError("this test has no network")
socket.socket.connect = refuse
from mkdocs.__main__ import cli
cli()
"""
LOADED = {"script": "src", "img": "src", "source": "src", "iframe": "src", "link": "href"}
ELSEWHERE = ("http:", "https:", "//")
UNREAD = re.compile(r"\n\s*- |\n\s*\||```")  # Markdown that stayed text
SKIPPED = 77


class Page(html.parser.HTMLParser):
    """Anchors of a page, its links, what it loads, and its text without code."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links, self.loaded, self.texts, self.code = {""}, [], [], [""], 0
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors.add(values.get("id"))
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if values.get(LOADED.get(tag)) and values.get("rel") not in ("prev", "next", "canonical"):
            self.loaded.append(values[LOADED[tag]])
        self.code += tag in ("code", "pre", "script", "style")
        self.texts.append("")

    def handle_endtag(self, tag):
        self.code -= tag in ("code", "pre", "script", "style")

    def handle_data(self, data):
        if not self.code:
            self.texts[-1] += data


def built():
    folder = fresh("site")
    done = subprocess.run([sys.executable, "-B", "-c", MKDOCS, "build", "--quiet", "--strict", "--site-dir", folder], cwd=TOP,
                          capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    return folder


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = built()
        cls.pages = {path: Page(path) for path in cls.folder.rglob("*.html")}

    def test_site__has_each_page_and_names_it(self):
        """Each page of docs/ stands in the list of mkdocs.yml, whose sections are those of docs/README.md."""
        pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
        listed = re.findall(r"^ +- (\S+\.md)$", (TOP / "mkdocs.yml").read_text(), re.MULTILINE)
        self.assertEqual(sorted(listed), sorted(pages))
        html_names = {re.sub(r"README\.md$", "index.md", name).replace(".md", ".html") for name in pages}
        self.assertEqual({path.relative_to(self.folder).as_posix() for path in self.pages} - {"404.html"}, html_names)

    def test_site__links_to_pages_and_anchors_that_exist(self):
        followed = 0
        for path, page in self.pages.items():
            if path.name == "404.html":
                continue  # it stands at the root of a server
            for link in page.links + page.loaded:
                if link.startswith((*ELSEWHERE, "mailto:", "javascript:", "data:")):
                    continue
                target = urllib.parse.urlsplit(link)
                file = (path.parent / urllib.parse.unquote(target.path)).resolve() if target.path else path
                file = file / "index.html" if file.is_dir() else file
                self.assertTrue(file.is_file(), (path.relative_to(self.folder), link))
                if file in self.pages:
                    self.assertIn(urllib.parse.unquote(target.fragment), self.pages[file].anchors, (path.relative_to(self.folder), link))
                    followed += target.fragment != ""
        self.assertGreater(followed, 300)

    def test_site__loads_nothing_from_another_host(self):
        for path, page in self.pages.items():
            for address in page.loaded:
                self.assertFalse(address.startswith(ELSEWHERE), (path, address))
            self.assertNotIn("mermaid", path.read_text(encoding="utf-8"))  # the theme would load that from a host
        sheets = list(self.folder.rglob("*.css"))
        self.assertTrue(sheets)
        for sheet in sheets:
            self.assertNotRegex(sheet.read_text(encoding="utf-8"), r"@import|url\([\"']?(https?:)?//")

    def test_site__leaves_no_list_and_no_table_as_text(self):
        for path, page in self.pages.items():
            for text in page.texts:
                self.assertIsNone(UNREAD.search(text), (path.relative_to(self.folder), text))

    def test_model__has_contents_on_each_page(self):
        for path in (DOCS / "model").glob("*.md"):
            text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
            listed = re.findall(r"^ *- \[(.*?)\]\(#[\w-]+\)$", text, re.MULTILINE)
            self.assertEqual(listed, re.findall(r"^##+ (.*)$", text, re.MULTILINE), path)


if __name__ == "__main__":
    if importlib.util.find_spec("mkdocs") is None or not pathlib.Path("/usr/share/mkdocs/themes/material").is_dir():
        print("mkdocs or mkdocs-material is missing (./packages.sh test)")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
