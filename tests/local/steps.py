"""The modules of ``compiler/local/ordered`` with a pause before every atomic operation, so that a test decides who goes on.

``twins`` compiles the real source again: each function becomes a generator that yields before it reads or writes what
workers share (an attribute that is assigned outside ``__init__``, an element, a queue, whether it is empty, a lock, a
counter). So what is explored is the code that runs, and a mutant is a replacement of its text. ``explore`` runs all
interleavings; two states are one when the shared objects and the local variables and positions of all threads are equal.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import marshal
from collections import deque
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import BuiltinMethodType, CodeType, FunctionType, GeneratorType, MethodType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple, NoReturn

__all__ = ["Broken", "StepCondition", "StepCounter", "StepLock", "Thread", "explore", "twins"]

PACKAGE = "tracetypes.compiler.local.ordered"
MODULES = ("marks", "reordering", "block_order", "worklists", "partitioned_worklists", "merge")
ATOMIC = {"append", "appendleft", "popleft", "pop", "extend", "extendleft", "release", "fetch_add", "clear"}
ATOMIC |= {"notify", "notify_all"}
CALLBACKS = {"process", "deliver", "put_down"}
"""Injected functions that tests give as generators."""
PLAIN = {"size", "join", "recorded", "aligned", "combine", "_first", "__enter__", "__exit__", "acquire"}
"""Functions that are no generators: they do one thing, or nothing that is shared."""

SCHEDULING = (*MODULES, "scheduler", "workers")
PLAIN |= ATOMIC | {
    "wait",
    "_choose",
    "_finish",
    "_is_quiet",
    "_is_over",
    "_can_retry",
    "_profile",
    "_stop",
    "load",
    "room",
    "stamp",
    "_run",
    "start",
}
"""Of the scheduler what runs under its lock is one step."""

Thread = Generator[Any, None, Any]

# ----------------------------------------------------------------------------------------------------- primitives


class StepLock:
    def __init__(self) -> None:
        self.held = False

    def acquire(self, blocking: bool = True, /) -> bool:
        assert not (blocking and self.held), "waits in a step"
        before, self.held = self.held, True
        return not before

    def release(self) -> None:
        assert self.held, "two hold a lock"
        self.held = False

    def __enter__(self) -> NoReturn:
        raise AssertionError("entered without a pause")

    def __exit__(self, *error: object) -> None:
        """Of a thread that is thrown away in the middle, too."""
        if self.held:
            self.release()


class StepCounter:
    def __init__(self, value: int = 0) -> None:
        self.value = value

    def fetch_add(self, amount: int) -> int:
        before = self.value
        self.value += amount
        return before


class StepCondition(StepLock):
    """First come, first woken, as ``threading.Condition``."""

    def __init__(self) -> None:
        super().__init__()
        self.sleepers: list[list[Any]] = []
        """Of each thread that sleeps whether it was woken, and which it is."""

    def notify(self) -> None:
        if self.sleepers:
            self.sleepers.pop(0)[0] = True

    def notify_all(self) -> None:
        while self.sleepers:
            self.notify()


def _acquire(lock: StepLock) -> Thread:
    yield
    while not lock.acquire(False):
        yield lock


def _wait(condition: StepCondition) -> Thread:
    woken = [False, CURRENT[0]]
    condition.sleepers.append(woken)
    condition.release()
    while not woken[0]:
        yield woken
    yield from _acquire(condition)


# ----------------------------------------------------------------------------------------------------- compilation


class _Stepper(ast.NodeTransformer):
    """A function as a generator. ``shared``: attributes that are assigned after construction; ``stepped``: functions
    that are generators."""

    def __init__(self, shared: set[str], stepped: set[str]) -> None:
        self.shared, self.stepped = shared, stepped
        self.aliases: dict[str, str] = {}
        self.private: set[str] = set()
        self.count = 0
        self.quiet = False
        self.statement = 0

    def temporary(self) -> str:
        self.count += 1
        return f"_{self.statement}_{self.count}"

    def body(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        return [result for one in statements for result in _listed(self.visit(one))]

    def visit(self, node: ast.AST) -> Any:
        """A statement gets a line of its own, which names its temporary variables: they are part of a state only while
        it runs."""
        if not isinstance(node, ast.stmt | ast.ExceptHandler) or isinstance(node, ast.FunctionDef | ast.ClassDef):
            return super().visit(node)
        self.statement += 1
        line = self.statement
        result = super().visit(node)
        for one in _listed(result):
            inner = {
                id(part)
                for field in ("body", "orelse", "finalbody", "handlers")
                for other in _as_list(getattr(one, field, []))
                for part in ast.walk(other)
            }
            for part in ast.walk(one):
                if id(part) not in inner and "lineno" in part._attributes:
                    part.lineno = part.end_lineno = line  # type: ignore[attr-defined]
                    part.col_offset = part.end_col_offset = 0  # type: ignore[attr-defined]
        return result

    def pause(self, *parts: ast.expr, last: ast.expr) -> ast.expr:
        """``parts``, then a pause, then ``last``, whose value is kept in a local variable."""
        kept: ast.expr = ast.NamedExpr(ast.Name(self.temporary(), ast.Store()), last)
        if self.quiet:
            return (
                kept
                if not parts
                else ast.Subscript(ast.Tuple([*parts, kept], ast.Load()), ast.Constant(-1), ast.Load())
            )
        elements: list[ast.expr] = [*parts, ast.Yield(None), kept]
        return ast.Subscript(ast.Tuple(elements, ast.Load()), ast.Constant(-1), ast.Load())

    def aside(self, value: ast.expr) -> tuple[list[ast.expr], ast.expr]:
        """A value that is computed before the pause."""
        if isinstance(value, ast.Name | ast.Constant):
            return [], value
        name = self.temporary()
        return [ast.NamedExpr(ast.Name(name, ast.Store()), value)], ast.Name(name, ast.Load())

    # --- functions

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if node.name not in self.stepped:
            return node
        self.aliases = {}
        self.private = _private(node)
        for one in ast.walk(node):
            if isinstance(one, ast.Assign):
                for target in one.targets:
                    names = target.elts if isinstance(target, ast.Tuple) else [target]
                    values = one.value.elts if isinstance(one.value, ast.Tuple) else [one.value]
                    for name, value in zip(names, values, strict=False):
                        if isinstance(name, ast.Name) and isinstance(value, ast.Attribute):
                            self.aliases[name.id] = value.attr
        node.body = self.body(node.body)
        never = ast.If(ast.Constant(False), [ast.Expr(ast.Yield(None))], [])
        node.body.append(never)  # so that it is a generator in any case
        return node

    def visit_Module(self, node: ast.Module | ast.ClassDef) -> ast.AST:
        """Only functions, and those of classes."""
        node.body = [self.visit(one) if isinstance(one, ast.ClassDef | ast.FunctionDef) else one for one in node.body]
        return node

    visit_ClassDef = visit_Module

    def visit_AnnAssign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        assert node.value is not None
        return self.visit_Assign(ast.Assign([node.target], node.value))

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        return node

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        for one in ast.walk(node):
            if isinstance(one, ast.Call):
                assert self.called(one.func) not in self.stepped | CALLBACKS, (
                    f"a pause in a comprehension: {ast.unparse(node)}"
                )
        return node

    visit_GeneratorExp = visit_ListComp  # type: ignore[assignment]

    # --- operations

    def called(self, function: ast.expr) -> str:
        if isinstance(function, ast.Attribute):
            return function.attr
        if isinstance(function, ast.Name):
            return self.aliases.get(function.id, function.id)
        return ""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        name = self.called(node.func)
        if isinstance(node.func, ast.Attribute) and node.func.attr in self.shared:
            name = ""
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        if name == "acquire" and not node.args:
            assert receiver is not None
            return ast.YieldFrom(_call("_acquire", self.visit(receiver)))
        if name == "wait":
            assert receiver is not None
            return ast.YieldFrom(_call("_wait", self.visit(receiver)))
        self.generic_visit(node)
        if name in self.stepped or name in CALLBACKS:
            return ast.NamedExpr(ast.Name(self.temporary(), ast.Store()), ast.YieldFrom(node))
        if isinstance(receiver, ast.Name) and receiver.id in self.private:
            return node
        if name in ATOMIC or name in ("acquire", "len"):
            before: list[ast.expr] = []
            arguments: list[ast.expr] = []
            for argument in node.args:
                parts, value = self.aside(argument)
                before += parts
                arguments.append(value)
            node.args = arguments
            return self.pause(*before, last=node)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load) and node.attr in self.shared:
            parts, value = self.aside(node.value)
            return self.pause(*parts, last=ast.Attribute(value, node.attr, ast.Load()))
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            base, value = self.aside(node.value)
            place, index = self.aside(node.slice)
            return self.pause(*base, *place, last=ast.Subscript(value, index, ast.Load()))
        return node

    # --- statements

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        (target,) = node.targets
        self.generic_visit(node)
        return self.stored(target, node)

    def stored(self, target: ast.expr, node: ast.Assign) -> list[ast.stmt]:
        if isinstance(target, ast.Subscript) or (isinstance(target, ast.Attribute) and target.attr in self.shared):
            name = self.temporary()
            first = ast.Assign([ast.Name(name, ast.Store())], node.value)
            pause = [] if self.quiet else [ast.Expr(ast.Yield(None))]
            return [first, *pause, ast.Assign([target], ast.Name(name, ast.Load()))]
        return [node]

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        if isinstance(node.target, ast.Name):
            self.generic_visit(node)
            return [node]
        assert isinstance(node.target, ast.Attribute), "read and write in one statement, of an element"
        read = ast.Attribute(node.target.value, node.target.attr, ast.Load())
        result = self.visit_Assign(ast.Assign([node.target], ast.BinOp(read, node.op, node.value)))
        return result

    def tested(self, test: ast.expr) -> ast.expr:
        """A condition. The truth of a variable is that of a queue or list, unless the variable is private."""
        match test:
            case ast.Name(id=name) if name not in self.private:
                return self.pause(last=test)
            case ast.UnaryOp(op=ast.Not()):
                test.operand = self.tested(test.operand)
                return test
            case ast.BoolOp():
                test.values = [self.tested(one) for one in test.values]
                return test
            case _:
                result: ast.expr = self.visit(test)
                return result

    def visit_If(self, node: ast.If | ast.While) -> ast.AST:
        node.test = self.tested(node.test)
        node.body, node.orelse = self.body(node.body), self.body(node.orelse)
        return node

    visit_While = visit_If

    def visit_For(self, node: ast.For) -> ast.For:
        node.iter = self.visit(node.iter)
        position = ast.Name(f"position_{self.temporary()}", ast.Store())
        node.body, node.orelse = self.body(node.body), self.body(node.orelse)
        node.target = ast.Tuple([position, node.target], ast.Store())
        node.iter = _call("enumerate", node.iter)
        return node

    def visit_With(self, node: ast.With) -> list[ast.stmt]:
        (item,) = node.items
        lock = item.context_expr
        assert isinstance(lock, ast.Attribute)
        enter = ast.Expr(ast.YieldFrom(_call("_acquire", lock)))
        body = self.body(node.body)
        leave = ast.Expr(ast.Call(ast.Attribute(lock, "__exit__", ast.Load()), [ast.Constant(None)] * 3, []))
        return [enter, ast.Try(body, [], [], [leave])]

    def visit_Try(self, node: ast.Try) -> ast.Try:
        node.body, node.orelse = self.body(node.body), self.body(node.orelse)
        for handler in node.handlers:
            handler.body = self.body(handler.body)
        self.quiet = True  # a pause there would also be one when a generator is thrown away
        node.finalbody = self.body(node.finalbody)
        self.quiet = False
        return node


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _as_list(value: Any) -> list[ast.AST]:
    return value if isinstance(value, list) else []


def _listed(result: ast.stmt | list[ast.stmt]) -> list[ast.stmt]:
    return result if isinstance(result, list) else [result]


def _private(function: ast.FunctionDef) -> set[str]:
    """Variables that hold nothing but what the function has just computed: a comparison, a constant, a new list."""
    private: set[str] = set()
    others = {one.arg for one in function.args.args}
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.AnnAssign(target=ast.Name(id=name), value=value):
                (private if isinstance(value, ast.Compare | ast.Constant | ast.List) else others).add(name)
            case ast.Assign(targets=targets):
                others |= {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}
            case ast.For(target=target):
                others |= {one.id for one in ast.walk(target) if isinstance(one, ast.Name)}
            case _:
                pass
    return private - others


class _Names(NamedTuple):
    shared: set[str]
    functions: set[str]


def _names(trees: Sequence[ast.Module]) -> _Names:
    shared: set[str] = set()
    functions: set[str] = set()
    for tree in trees:
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef) or node.name in ("__init__", "__repr__"):
                continue
            functions.add(node.name)
            for one in ast.walk(node):
                if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store):
                    shared.add(one.attr)
    return _Names(shared, functions)


def twins(mutations: Mapping[str, tuple[str, str]] | None = None, modules: Sequence[str] = MODULES) -> SimpleNamespace:
    """All names of the modules, compiled with pauses. ``mutations``: by module, a text and what takes its place."""
    sources = {}
    for module in modules:
        path = importlib.import_module(f"{PACKAGE}.{module}").__file__
        assert path is not None
        sources[module] = Path(path).read_text(encoding="utf-8")
    for module, (text, other) in (mutations or {}).items():
        assert sources[module].count(text) == 1, f"{text!r} is {sources[module].count(text)} times in {module}"
        sources[module] = sources[module].replace(text, other)
    trees = {module: ast.parse(source) for module, source in sources.items()}
    names = _names(list(trees.values()))
    stepper = _Stepper(names.shared, names.functions - PLAIN)
    known: dict[str, Any] = {"_acquire": _acquire, "_wait": _wait}
    for module, tree in trees.items():
        space: dict[str, Any] = {"__name__": f"twin_{module}", **known}
        tree.body = [
            one
            for one in tree.body
            if not (isinstance(one, ast.ImportFrom) and one.module in {f"{PACKAGE}.{name}" for name in modules})
        ]
        tree = ast.fix_missing_locations(stepper.visit(tree))
        exec(compile(tree, f"<{module} in steps>", "exec"), space)
        known |= {name: value for name, value in space.items() if not name.startswith("__")}
    return SimpleNamespace(**known)


# ----------------------------------------------------------------------------------------------------- exploration


class Broken(AssertionError):
    """A property does not hold; ``path``: which thread made each step."""

    def __init__(self, reason: str, path: Sequence[int]) -> None:
        super().__init__(f"{reason} after {''.join(map(str, path))}")
        self.reason, self.path = reason, tuple(path)


CURRENT = [0]
"""The thread that makes a step."""


class Explored(NamedTuple):
    states: int
    steps: int
    ends: int


class _Run:
    """``threads``: what runs; ``shared``: the objects that make the state, and that properties are about."""

    def __init__(self, threads: Sequence[Thread], shared: Sequence[Any]) -> None:
        self.threads = list(threads)
        self.shared = shared
        self.waiting: list[Any] = [None] * len(self.threads)
        self.over = [False] * len(self.threads)

    def step(self, thread: int) -> None:
        CURRENT[0] = thread
        try:
            self.waiting[thread] = next(self.threads[thread])
        except StopIteration:
            self.over[thread] = True

    def enabled(self) -> list[int]:
        return [
            one
            for one, wait in enumerate(self.waiting)
            if not self.over[one]
            and not (isinstance(wait, StepLock) and wait.held)
            and not (isinstance(wait, list) and not wait[0])
        ]

    def key(self) -> bytes:
        parts: list[Any] = []
        memo: dict[int, int] = {}
        for one in self.shared:
            _freeze(one, memo, parts.append)
        for thread, over in zip(self.threads, self.over, strict=True):
            if over:
                parts.append(None)
            else:
                _freeze(thread, memo, parts.append)
        return hashlib.blake2b(marshal.dumps(parts, 0), digest_size=12).digest()


ATOMS = frozenset((type(None), bool, int, float, str, bytes))
NAMED = (type, FunctionType, ModuleType)
FIELDS: dict[type, list[str]] = {}
VARIABLES: dict[tuple[CodeType, int], list[str]] = {}
"""Of a generator's function at a line: the names of the variables that are part of a state."""


def _freeze(value: Any, memo: dict[int, int], put: Callable[[Any], None]) -> None:
    """Put a value as plain data, one part after the other; objects that occur twice by their place of first occurrence. What is
    no atom begins with ``...`` and its kind, so that different values differ. This takes most of the time of a search, so atoms
    are put where they are met."""
    kind = type(value)
    if kind in ATOMS:
        put(value)
        return
    put(...)
    if kind is tuple:
        _freeze_all("tuple", value, memo, put)
        return
    known = memo.get(id(value))
    if known is not None:
        put("again")
        put(known)
        return
    if kind in FIELDS:
        _freeze_fields(value, memo, put)
    elif kind is list or kind is deque:
        memo[id(value)] = len(memo)
        _freeze_all("list", value, memo, put)
    elif kind is GeneratorType:
        memo[id(value)] = len(memo)
        _freeze_generator(value, memo, put)
    elif kind is MethodType or kind is BuiltinMethodType:
        put(value.__name__)
        _freeze(value.__self__, memo, put)
    elif kind is dict:
        memo[id(value)] = len(memo)
        put("dict")
        put(len(value))
        for key, one in value.items():
            _freeze(key, memo, put)
            _freeze(one, memo, put)
    elif kind is set:
        memo[id(value)] = len(memo)
        put("set")
        put(sorted(value))
    elif kind is range:
        put("range")
        put((value.start, value.stop))
    elif isinstance(value, NAMED):
        put(value.__name__)
    elif isinstance(value, Enum):
        put(value.name)
    elif isinstance(value, tuple):
        _freeze_all("tuple", value, memo, put)
    else:
        slots = [name for one in kind.__mro__ for name in getattr(one, "__slots__", ())]
        FIELDS[kind] = sorted(name for name in slots or getattr(value, "__dict__", {}) if name != "__weakref__")
        _freeze_fields(value, memo, put)


def _freeze_fields(value: Any, memo: dict[int, int], put: Callable[[Any], None]) -> None:
    kind = type(value)
    memo[id(value)] = len(memo)
    put(kind.__name__)
    for name in FIELDS[kind]:
        one = getattr(value, name, None)
        put(one) if type(one) in ATOMS else _freeze(one, memo, put)


def _freeze_all(kind: str, values: Collection[Any], memo: dict[int, int], put: Callable[[Any], None]) -> None:
    put(kind)
    put(len(values))
    for one in values:
        put(one) if type(one) in ATOMS else _freeze(one, memo, put)


def _freeze_generator(generator: GeneratorType[Any, Any, Any], memo: dict[int, int], put: Callable[[Any], None]) -> None:
    frame = generator.gi_frame
    if frame is None:
        put("over")
        return
    put(generator.__name__)
    put(frame.f_lasti)
    code, line, variables = frame.f_code, frame.f_lineno, frame.f_locals
    names = VARIABLES.get((code, line))
    if names is None:
        every = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
        names = VARIABLES[code, line] = sorted(name for name in every if name[0] != "_" or name.startswith(f"_{line}_"))
    for name in names:
        if name in variables:
            _freeze(variables[name], memo, put)
        else:
            put(...)
            put("unset")
    _freeze(generator.gi_yieldfrom, memo, put)


def explore(
    make: Callable[[], tuple[Sequence[Thread], Sequence[Any]]],
    final: Callable[[Sequence[Any]], None],
    always: Callable[[Sequence[Any]], None] = lambda shared: None,
    *,
    most: int = 2_000_000,
) -> Explored:
    """All interleavings of the threads. ``final``: checks the shared objects when all threads are over; ``always``: in
    every state. Fails on a deadlock, and on a state from which no end can be reached."""
    before: dict[bytes, list[bytes]] = {}
    paths: dict[bytes, tuple[int, ...]] = {}
    ends: list[bytes] = []
    steps = 0
    work: list[tuple[tuple[int, ...], bytes | None]] = [((), None)]
    while work:
        path, parent = work.pop()
        run = _Run(*make())
        try:
            for thread in path:
                run.step(thread)
            while True:
                steps += 1
                key = run.key()
                if parent is not None:
                    before.setdefault(key, []).append(parent)
                if key in paths:
                    break
                paths[key] = path
                assert len(paths) <= most, f"more than {most} states"
                always(run.shared)
                enabled = run.enabled()
                if not enabled:
                    if not all(run.over):
                        raise Broken("nobody can go on", path)
                    final(run.shared)
                    ends.append(key)
                    break
                first, *others = enabled
                work += [((*path, other), key) for other in others]
                path, parent = (*path, first), key
                run.step(first)
        except Broken:
            raise
        except Exception as error:
            raise Broken(f"{type(error).__name__}: {error}", path) from error
    reached = set(ends)
    todo = list(ends)
    while todo:
        for one in before.get(todo.pop(), ()):
            if one not in reached:
                reached.add(one)
                todo.append(one)
    for key, path in paths.items():
        if key not in reached:
            raise Broken("no end can be reached", path)
    return Explored(len(paths), steps, len(ends))
