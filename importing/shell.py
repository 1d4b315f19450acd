# SPDX-License-Identifier: GPL-3.0-or-later
"""This module reads the words of a launch script of bash without running it.

1. Lines that end with a backslash go on. Comments and here-documents are left out, `#SBATCH` is a command.
2. Assignments are followed, also of arrays and with `+=`. `${NAME:-default}` and `$((A * B))` are computed.
3. Of `if`, the branch is taken whose test can be evaluated and holds. If a test cannot be evaluated, it counts as true.
4. Loops and functions are read once. `$(command)` has no value.
"""
import ast
import fnmatch
import operator
import re

from report import GAP, UNSET

NAME = r"[A-Za-z_][A-Za-z0-9_]*"
ASSIGNMENT = re.compile(rf"({NAME})(\+?)=(.*)", re.DOTALL)
EXPANSION = re.compile(rf"\$(?:({NAME})|(\d|[#?*@$!-]))")
OPERATORS = ("&&", "||", ";;", ";", "\n", "|", "&", "(", ")")
ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.floordiv,
              ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod}
NUMBER_TESTS = {"-eq": operator.eq, "-ne": operator.ne, "-lt": operator.lt, "-le": operator.le, "-gt": operator.gt,
                "-ge": operator.ge}
TEXT_TESTS = {"=": operator.eq, "==": operator.eq, "!=": operator.ne}
PREFIXES = ("export", "local", "readonly", "declare", "typeset", "do", "{", "!")
OTHERS = ("for", "while", "until", "select", "done", "}", "function")  # of loops and functions


def unset(text):
    """Return what stands for a variable, command or expression that has no value."""
    return UNSET + re.sub(r"\s+", GAP, text)


def whole(expression):
    """Compute an expression of whole numbers. ValueError: it is none."""
    def value(node):
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -value(node.operand)
        if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            return ARITHMETIC[type(node.op)](value(node.left), value(node.right))
        raise ValueError(expression)
    try:
        return value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, ZeroDivisionError, RecursionError, MemoryError):
        raise ValueError(expression) from None


def _closing(text, at, opened, closed):
    """Return the place behind the bracket that closes the one before `at`."""
    depth = 1
    while at < len(text) and depth > 0:
        if text[at] == "\\":
            at += 1
        elif text[at] == "'" and opened == "(":
            at = text.find("'", at + 1) if "'" in text[at + 1:] else len(text)
        else:
            depth += (text[at] == opened) - (text[at] == closed)
        at += 1
    return at


def _behind_quote(text, at, quote):
    """Return the place behind the quote that ends a text which begins at `at`."""
    while at < len(text) and text[at] != quote:
        at += 2 if text[at] == "\\" and quote == '"' else 1
    return at + 1


def tokens(text):
    """Yield the words, with their quotes, and the operators of a script."""
    text = re.sub(r"^[ \t]*#SBATCH\b", "SBATCH", text, flags=re.MULTILINE).replace("\r", "").replace("\\\n", " ")
    text = re.sub(r"<<-?\s*(['\"]?)(\w+)\1([^\n]*\n)(?:.*\n)*?[ \t]*\2[ \t]*$", r"\3", text, flags=re.MULTILINE)
    at, word = 0, ""
    while at < len(text):
        sign, begin = text[at], at
        found = next((sign for sign in OPERATORS if text.startswith(sign, at)), None)
        if sign == "#" and not word:
            at = text.find("\n", at) if "\n" in text[at:] else len(text)
            continue
        if sign in "'\"":
            at = _behind_quote(text, at + 1, sign)
        elif text.startswith("$(", at) or (sign == "(" and word.endswith("=")):
            at = _closing(text, at + (2 if sign == "$" else 1), "(", ")")
        elif text.startswith("${", at):
            at = _closing(text, at + 2, "{", "}")
        elif sign in " \t" or found:
            if word:
                yield word
            word = ""
            if found:
                yield found
            at += len(found or sign)
            continue
        else:
            at += 2 if sign == "\\" else 1
        word += text[begin:at]
    if word:
        yield word


class Script:
    """It holds variables, and commands as lists of words."""

    def __init__(self, text, variables):
        self.given = dict(variables)
        self.variables = {name: [value] for name, value in variables.items()}
        self.commands, self.unsure = [], []
        self._read(list(tokens(text)))

    def _braced(self, inside):
        """Return the fields of ${...}."""
        match = re.fullmatch(rf"({NAME}|\d+|[@*])(?:\[[@*]\])?(?::?([-=?+])(.*))?", inside, re.DOTALL)
        if match is None:
            return [UNSET + "{" + inside + "}"]
        fields = self.variables.get(match[1], [] if match[1] in "@*" else None)
        empty = not fields or fields == [""]
        if match[2] == "+":
            return [] if empty else self.fields(match[3])
        if match[2] in ("-", "=") and empty:
            return self.fields(match[3]) or [""]
        return [UNSET + match[1]] if fields is None else fields

    def _arithmetic(self, inside):
        text = re.sub(rf"\$?\b({NAME})\b", lambda match: "".join(self.variables.get(match[1], [match[0]])),
                      re.sub(r"\$\{(\w+)(?::-[^}]*)?\}", r"\1", inside))
        try:
            return str(whole(text))
        except ValueError:
            unknown = re.search(rf"[{UNSET}$](\(.*\))|({NAME})", text)  # a command or variable that it needs
            return unset((unknown[1] or unknown[2]) if unknown else f"(({inside}))")

    def _expanded(self, word, at):
        """Return the fields of the expansion that begins at a dollar sign, and the place behind it."""
        if word.startswith("$((", at):
            end = _closing(word, at + 2, "(", ")")
            return [self._arithmetic(word[at + 3:end - 2])], end
        if word.startswith("$(", at):
            end = _closing(word, at + 2, "(", ")")
            return [unset(word[at + 1:end])], end
        if word.startswith("${", at):
            end = _closing(word, at + 2, "{", "}")
            return self._braced(word[at + 2:end - 1]), end
        match = EXPANSION.match(word, at)
        if match is None:
            return ["$"], at + 1
        name = match[1] or match[2]
        if name == "#":
            return [str(sum(given.isdigit() for given in self.given))], match.end()
        return (self._braced(name) if match[1] or name in "@*0123456789" else [UNSET + name]), match.end()

    def fields(self, word):
        """Return a word's fields: quotes go, variables get their values, and blanks of unquoted values split."""
        if word == '"$@"':
            return []
        fields, open_field, at, quote = [""], False, 0, None
        while at < len(word):
            sign = word[at]
            if quote is None and sign in "'\"" or sign == quote:
                quote, open_field, at = (None if quote else sign), True, at + 1
            elif sign == "\\" and quote != "'" and at + 1 < len(word):
                fields[-1] += word[at + 1]
                open_field, at = True, at + 2
            elif sign == "$" and quote != "'":
                values, at = self._expanded(word, at)
                parts = values if quote else [part for value in values for part in value.split()]
                if parts:
                    fields[-1] += parts[0]
                    fields += parts[1:]
                    open_field = True
            else:
                fields[-1] += sign
                open_field, at = True, at + 1
        return fields if open_field else []

    def _assign(self, name, adds, value):
        if name in self.given:
            return  # what the user gives counts
        if value.startswith("("):
            new = [field for word in tokens(value[1:-1]) if word not in OPERATORS for field in self.fields(word)]
        else:
            new = [" ".join(self.fields(value))]
        old = self.variables.get(name, [])
        if adds and not value.startswith("(") and old:
            new = [*old[:-1], old[-1] + new[0]]
        elif adds:
            new = old + new
        self.variables[name] = new

    def _holds(self, words):
        """Return whether a test holds. None: it cannot be evaluated."""
        words = [" ".join(self.fields(word)) for word in words if word not in ("[", "]", "[[", "]]", "test")]
        if len(words) == 2 and words[0] in ("-z", "-n"):
            return (words[1] == "" or words[1].startswith(UNSET)) == (words[0] == "-z")
        if any(UNSET in word for word in words):
            return None
        if len(words) == 3 and words[1] in TEXT_TESTS:
            return TEXT_TESTS[words[1]](words[0], words[2])
        if len(words) == 3 and words[1] in NUMBER_TESTS and all(re.fullmatch(r"-?\d+", word) for word in words[::2]):
            return NUMBER_TESTS[words[1]](int(words[0]), int(words[2]))
        return None

    def _statement(self, words):
        """Follow assignments, and keep a command."""
        while words and words[0] in PREFIXES:
            words = [word for word in words[1:] if not re.fullmatch(r"-[a-zA-Z]", word)]
        while words and ASSIGNMENT.fullmatch(words[0]):
            match = ASSIGNMENT.fullmatch(words.pop(0))
            self._assign(match[1], bool(match[2]), match[3])
        fields = [field for word in words for field in self.fields(word)]
        if fields and fields[0] != "set":
            self.commands.append(fields)

    def _if(self, kind, words, branches):
        """Begin or change a branch of `if`."""
        test = True if kind == "else" else self._holds(words)
        if kind == "if":
            branches.append(Branch())
        if test is None and not branches[-1].taken:
            test = True
            if all(branch.active for branch in branches[:-1]):
                self.unsure.append(" ".join(words))
        branches[-1].choose(bool(test))

    def _case(self, words, branch):
        """Begin a branch of `case`, whose patterns are these."""
        patterns = [pattern for word in words for pattern in self.fields(word)]
        branch.choose(any(fnmatch.fnmatchcase(branch.value, pattern) for pattern in patterns))

    def _read(self, all_tokens):
        statement, branches, skips = [], [], False
        for token in [*all_tokens, "\n"]:
            in_case = bool(branches) and branches[-1].value is not None
            if token not in OPERATORS or (token == "|" and in_case and branches[-1].expects):
                statement += [token] if token != "|" else []
                continue
            words, statement = statement, []
            if words and words[0] == "case" and "in" in words:
                at = words.index("in")
                branches.append(Branch(" ".join(field for word in words[1:at] for field in self.fields(word))))
                words, in_case = words[at + 1:], True
            if in_case and branches[-1].expects and token == ")" and words:
                self._case(words, branches[-1])
                continue
            while words and words[0] in ("then", "else"):
                if words.pop(0) == "else" and branches:
                    self._if("else", [], branches)
            if words and words[0] in ("if", "elif"):
                self._if(words[0], words[1:], branches)
            elif words and words[0] in ("fi", "esac"):
                branches = branches[:-1]
            elif words and words[0] in ("[", "[[", "test") and token in ("&&", "||"):
                skips = self._holds(words) == (token == "||")
                continue
            elif words and words[0] not in OTHERS and not skips and all(branch.active for branch in branches):
                self._statement(words)
            skips = False
            if token == ";;" and in_case:
                branches[-1].choose(False)
                branches[-1].expects = True


class Branch:
    """It is an `if` or a `case` that is open: whether one of its branches was taken, and whether the present one is."""

    def __init__(self, value=None):
        self.value, self.taken, self.active, self.expects = value, False, value is None, value is not None

    def choose(self, holds):
        self.active = holds and not self.taken
        self.taken, self.expects = self.taken or holds, False
