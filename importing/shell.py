# SPDX-License-Identifier: GPL-3.0-or-later
"""This module reads the words of a launch script of bash without running it.

1. Lines that end with a backslash go on. Comments and here-documents are left out, `#SBATCH` is a command.
2. Assignments are followed, also of arrays, their entries and with `+=`. `${NAME:-default}` and `$((A * B))` are computed.
3. `if` takes the branch whose test can be evaluated and holds. If a test cannot be evaluated, it counts as true.
4. Before `&&` and `||`, tests count in the same way, and commands succeed. A test that cannot be evaluated lets the command
   behind it run, so before `||` it counts as false.
5. Loops and functions are read once. `$(command)` has no value.
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
TESTS = ("[", "[[", "test")
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
        self.branches = []  # of `if` and `case` that are open
        self._read(list(tokens(text)))

    def _braced(self, inside):
        """Return the fields of ${...}."""
        match = re.fullmatch(rf"({NAME}|\d+|[@*])(?:\[([^\]]*)\])?(?::?([-=?+])(.*))?", inside, re.DOTALL)
        if match is None:
            return [UNSET + "{" + inside + "}"]
        fields = self.variables.get(match[1], [] if match[1] in "@*" else None)
        if fields and match[2] not in (None, "@", "*") and match[1] not in self.given:
            index = self._arithmetic(match[2])
            fields = [fields[int(index)]] if index.isdigit() and int(index) < len(fields) else None
        empty = not fields or fields == [""]
        if match[3] == "+":
            return [] if empty else self.fields(match[4])
        if match[3] in ("-", "=") and empty:
            return self.fields(match[4]) or [""]
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
        words = [" ".join(self.fields(word)) for word in words if word not in (*TESTS, "]", "]]")]
        if len(words) == 2 and words[0] in ("-z", "-n"):
            return (words[1] == "" or words[1].startswith(UNSET)) == (words[0] == "-z")
        if any(UNSET in word for word in words):
            return None
        if len(words) == 3 and words[1] in TEXT_TESTS:
            return TEXT_TESTS[words[1]](words[0], words[2])
        if len(words) == 3 and words[1] in NUMBER_TESTS and all(re.fullmatch(r"-?\d+", word) for word in words[::2]):
            return NUMBER_TESTS[words[1]](int(words[0]), int(words[2]))
        return None

    def _statement(self, words, unsure):
        """Follow assignments, and keep a command, which depends on what a test is assumed to be (None: on nothing)."""
        while words and words[0] in PREFIXES:
            words = [word for word in words[1:] if not re.fullmatch(r"-[a-zA-Z]", word)]
        matters = bool(words) and any(word.startswith("--") for word in words)
        while words and ASSIGNMENT.fullmatch(words[0]):
            match = ASSIGNMENT.fullmatch(words.pop(0))
            self._assign(match[1], bool(match[2]), match[3])
            matters = True
        fields = [field for word in words for field in self.fields(word)]
        if fields and fields[0] != "set":
            self.commands.append(fields)
        if matters:
            found = [*(branch.unsure for branch in self.branches), unsure]
            self.unsure += [one for one in dict.fromkeys(found) if one and one not in self.unsure]

    def _link(self, chain, words, token):
        """Follow a part of a chain, and choose the branch of `if` whose test ends here."""
        if chain.kind or words[0] in TESTS or words[-1] == "]]":
            chain.add(self._holds(words), " ".join(words))
            if chain.kind and self.branches and token not in ("&&", "||"):
                chain.sign = "&&"  # of `then`
                self.branches[-1].choose(chain.runs(), chain.unsure)
        elif all(branch.active for branch in self.branches) and chain.runs():
            self._statement(words, chain.unsure)
            chain.holds = True if token != "|" else chain.holds
        chain.sign = token if token in ("&&", "||") else chain.sign

    def _case(self, words):
        """Begin a branch of `case`, whose patterns are these."""
        branch, patterns = self.branches[-1], [pattern for word in words for pattern in self.fields(word)]
        branch.choose(any(fnmatch.fnmatchcase(branch.value, pattern) for pattern in patterns),
                      f"case {branch.value} in {'|'.join(words)}) holds" if UNSET in branch.value else None)

    def _read(self, all_tokens):
        statement, chain = [], Chain()
        for token in [*all_tokens, "\n"]:
            in_case = bool(self.branches) and self.branches[-1].value is not None
            if token not in OPERATORS or (token == "|" and in_case and self.branches[-1].expects):
                statement += [token] if token != "|" else []
                continue
            words, statement = statement, []
            if token == "|" and (chain.kind or words[:1] in (["if"], ["elif"])):
                statement = [*words, "|"]
                continue
            if words and words[0] == "case" and "in" in words:
                at = words.index("in")
                self.branches.append(Branch(" ".join(field for word in words[1:at] for field in self.fields(word))))
                words, in_case = words[at + 1:], True
            if in_case and self.branches[-1].expects and token == ")" and words:
                self._case(words)
                continue
            while words and words[0] in ("then", "else"):
                if words.pop(0) == "else" and self.branches:
                    self.branches[-1].choose(True)
            ends = bool(words) and token not in ("&&", "||", "|")
            if words and words[0] in ("fi", "esac"):
                self.branches = self.branches[:-1]
            elif words and words[0] not in OTHERS:
                if words[0] in ("if", "elif"):
                    self.branches += [Branch()] if words[0] == "if" else []
                    chain = Chain(words.pop(0))
                self._link(chain, words, token)
            if ends:
                chain = Chain()
            if token == ";;" and in_case and self.branches:
                self.branches[-1].choose(False)
                self.branches[-1].expects = True


class Chain:
    """It is tests and commands with && and || between them: whether the parts up to now hold (None: that cannot be
    evaluated), the sign before the next part, the text of the tests, and what is assumed of them. kind: it is the test of
    `if` or `elif`."""

    def __init__(self, kind=None):
        self.kind, self.holds, self.sign, self.text, self.unsure = kind, True, "&&", "", None

    def add(self, test, text):
        """Take the next test. One value decides && or || alone, and otherwise a value that is not known."""
        values, decides = (self.holds, test), self.sign == "||"
        self.holds = decides if decides in values else None if None in values else not decides
        self.text = f"{self.text} {self.sign} {text}" if self.text else text

    def runs(self):
        """Return whether what follows is run. If that is not known, assume that it is."""
        needed = self.sign == "&&"
        if self.holds is None:
            self.holds = needed
            self.unsure = self.text and f"{self.text} {'holds' if needed else 'does not hold'}"
        return self.holds == needed


class Branch:
    """It is an `if` or a `case` that is open: whether one of its branches was taken, whether the present one is, and the
    assumption about a test that it depends on if that cannot be evaluated."""

    def __init__(self, value=None):
        self.value, self.taken, self.active, self.expects = value, False, value is None, value is not None
        self.unsure = None

    def choose(self, holds, unsure=None):
        self.active = holds and not self.taken
        self.unsure = unsure if self.active and unsure else self.unsure
        self.taken, self.expects = self.taken or holds, False
