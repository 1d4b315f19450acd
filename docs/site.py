# SPDX-License-Identifier: GPL-3.0-or-later
"""This hook of mkdocs.yml has Markdown read the indents of docs/ as GitHub does: a list in a list is indented by two blanks."""
import markdown
import markdown.blockprocessors


class TwoBlanks(markdown.Extension):
    def extendMarkdown(self, md):
        md.tab_length = 2
        md.parser = markdown.blockprocessors.build_block_parser(md)  # its parts keep the length that they find


def on_config(config):
    config.markdown_extensions.insert(0, TwoBlanks())  # before extensions add their own parts
    return config


def on_files(files, config):
    for file in list(files):
        if file.src_path.endswith((".py", ".pyc", ".txt")):
            files.remove(file)  # scripts that make pages and pictures are no part of the site
    return files
