"""What the service does for a token, without HTTP: who may do what, what of it is shown, and what is written down."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from tracetypes.compiler.workspace.merged_graph import OperatorView
from tracetypes.compiler.workspace.service.accounts import Accounts, Flow, Role, Token
from tracetypes.compiler.workspace.service.errors import Refused, refused_of
from tracetypes.compiler.workspace.service.landlock import AVAILABLE
from tracetypes.compiler.workspace.service.process_tree import ProcessorSeconds, tree_seconds
from tracetypes.compiler.workspace.service.registry import Registry, is_name
from tracetypes.compiler.workspace.service.workers import Workers
from tracetypes.errors import UsageError

__all__ = ["Service"]

MOST_AT_ONCE: Final = 8
"""Changes of one owner at a time: each holds a thread until it is done."""


_FLOW: Final = re.compile(r"(?<![\w.-])([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)(\.\d+)?(?![\w-])")
"""What may be the OWNER.NAME of a flow."""


@attrs.frozen(eq=False)
class _Steps:
    """How a change is done. ``note``: before, in one transaction with the idempotency key; it gets whether the request has come
    before. ``do``: in a worker. ``end``: writes that it is done, and returns the answer."""

    note: Callable[[bool], None]
    do: Callable[[bool], Mapping[str, Any]]
    end: Callable[[Mapping[str, Any]], dict[str, Any]]


class Service:
    """A workspace with its owners. Threads share it. ``folder``: with the registry, and all that the service keeps."""

    def __init__(self, folder: Path, registry: Registry, backend: str) -> None:
        self.registry = registry
        self.accounts = Accounts(folder / "private" / "service.db")
        self.workers = Workers(folder, registry, backend, self.accounts)
        self._busy: dict[str, int] = {}
        self._running_keys: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def close(self) -> None:
        """Stop the workers."""
        self.workers.close()
        self.accounts.close()

    # -------------------------------------------------------------------------------------------------- changes

    def submit(self, token: Token, name: str, request: Mapping[str, Any], key: str | None) -> dict[str, Any]:
        """Accept a flow of the token's owner. It is written down, and starts behind the answer."""
        digest = _digest(request)
        steps = _Steps(
            lambda again: self._note(token, name, request, digest, again),
            lambda again: self._submit(token, name, request),
            lambda answer: self._submitted(token, name, request, digest, answer),
        )
        return self._change(token, "submit", name, request, key, steps)

    def replace(self, token: Token, name: str, request: Mapping[str, Any], seconds: float, key: str | None) -> dict[str, Any]:
        """Let another flow take the place of one."""
        digest = _digest(request)
        steps = _Steps(
            lambda again: None,
            lambda again: self._replace(token, name, request, seconds, again),
            lambda answer: self._submitted(token, name, request, digest, answer),
        )
        return self._change(token, "replace", name, {**request, "seconds": seconds}, key, steps)

    def remove(self, token: Token, name: str, options: Mapping[str, Any], key: str | None) -> dict[str, Any]:
        """Stop a flow."""
        steps = _Steps(
            lambda again: None,
            lambda again: self._remove(token, name, options, again),
            lambda answer: self._removed(token, name),
        )
        return self._change(token, "remove", name, options, key, steps)

    def dry_run(self, token: Token, name: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """What a submit would start, and share with flows of the owner and of those who let others see that."""
        self._need_role(token, "owner")
        worker = self._worker_for(token, request)
        visible = [one.name for one in self.registry.owners.values() if one.is_open]
        arguments: dict[str, Any] = {"owner": token.owner, "name": name, "request": request, "visible": visible}
        try:
            answer = self.workers.of(worker).call("dry_run", **arguments)
        except Exception as error:
            raise self._refused(token, error) from error
        own = f"{token.owner}."
        shared = [{**one, "flows": [flow.removeprefix(own) for flow in one["flows"]]} for one in answer["shared"]]
        return {**answer, "shared": shared}

    def _note(self, token: Token, name: str, request: Mapping[str, Any], digest: str, again: bool) -> None:
        """Write that a flow is being submitted."""
        there = self.accounts.flow(token.owner, name)
        if there is not None and there.state != "stopped":
            if again and there.digest == digest and there.state == "running":
                return
            raise Refused(409, "TT402", f"there is a flow {name!r} already", "give another name, or replace or remove that flow")
        if self.accounts.count(token.owner) >= self.registry.limits.flows:
            raise Refused(429, "TT416", f"an owner has at most {self.registry.limits.flows} flows", "remove some")
        worker = self._worker_for(token, request)
        self.accounts.forget_flow(token.owner, name)
        self.accounts.add_flow(token.owner, name, worker, request, digest)

    def _submit(self, token: Token, name: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        flow = self._need(token.owner, name)
        if flow.state == "running":
            return self.show(token, token.owner, name)
        try:
            arguments: dict[str, Any] = {"owner": token.owner, "name": name, "request": request}
            return self.workers.of(flow.worker).call("submit", f"{token.owner}.{name}", **arguments)
        except BaseException:
            self.accounts.forget_flow(token.owner, name)
            raise

    def _submitted(
        self, token: Token, name: str, request: Mapping[str, Any], digest: str, answer: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The view of a flow. ``answer``: of the worker that has accepted it, or the view if it was so before."""
        if "places" not in answer:
            return dict(answer)
        self.accounts.started(token.owner, name, request, digest, answer["places"])
        return self._view(token, self._need(token.owner, name), answer)

    def _replace(
        self, token: Token, name: str, request: Mapping[str, Any], seconds: float, again: bool
    ) -> Mapping[str, Any]:
        there, worker = self._need(token.owner, name), self._worker_for(token, request)
        if again and there.digest == _digest(request):
            return self.show(token, token.owner, name)
        if there.worker != worker:
            fix = "submit it under another name, and remove the old one"
            raise Refused(422, "TT422", "a dataflow in JSON and one in Python run in different processes", fix)
        arguments: dict[str, Any] = {"owner": token.owner, "name": name, "request": request, "seconds": seconds}
        # The new flow has the old one's name and a number behind it until it takes over.
        return self.workers.of(worker).call("replace", f"{token.owner}.{name}.", seconds, **arguments)

    def _remove(self, token: Token, name: str, options: Mapping[str, Any], again: bool) -> Mapping[str, Any]:
        there = self.accounts.flow(token.owner, name)
        if there is None and again:
            return {}
        there = self._need(token.owner, name)
        if there.state == "stopped":
            return {}
        return self.workers.of(there.worker).call(
            "remove", None, options["seconds"], owner=token.owner, name=name, **options
        )

    def _removed(self, token: Token, name: str) -> dict[str, Any]:
        self.accounts.forget_flow(token.owner, name)
        return {"removed": name}

    # ---------------------------------------------------------------------------------------------------- views

    def flows(self, token: Token) -> list[dict[str, Any]]:
        """The flows that a token may see: those of its owner; all, for an administrator."""
        flows = self.accounts.flows(None if token.is_administrator else token.owner)
        shown = self.workers.show({one.worker for one in flows})
        return [self._view(token, one, shown.get(f"{one.owner}.{one.name}")) for one in flows]

    def show(self, token: Token, owner: str, name: str) -> dict[str, Any]:
        """One flow."""
        self._need_owner(token, owner, name)
        one = self._need(owner, name)
        return self._view(token, one, self.workers.show({one.worker}).get(f"{owner}.{name}"))

    def graph(self, token: Token) -> list[OperatorView]:
        """The operators that flows of the token's owner need; all, for an administrator. Flows of others have no names."""
        workers = {one.worker for one in self.accounts.flows(None if token.is_administrator else token.owner)}
        return [shown for worker in sorted(workers) for one in self._operators(worker) if (shown := self._own(token, one))]

    def _operators(self, worker: str) -> list[OperatorView]:
        mark = f"{worker}:" if worker else ""
        return [
            attrs.evolve(one, name=f"{mark}{one.name}", inputs=tuple(f"{mark}{each}" for each in one.inputs))
            for one in self.workers.graph(worker).operators
        ]

    def processor_seconds(self) -> ProcessorSeconds | None:
        """Of all processes of the service, for an administrator. None where the system does not tell."""
        tree, graphs = tree_seconds(), [self.workers.graph(name) for name in self.workers.all]
        if tree is None:
            return None
        operators, left = sum(one.seconds for one in graphs), sum(one.left for one in graphs)
        return ProcessorSeconds(flows=operators - left, left=left, workers=max(0.0, tree.below - operators), http=tree.own)

    def _own(self, token: Token, one: OperatorView) -> OperatorView | None:
        if token.is_administrator:
            return one
        visible = [flow for flow in one.flows if self._may_name(token, flow)]
        if not any(flow.startswith(f"{token.owner}.") for flow in visible):
            return None
        others = len(one.flows) - len(visible)
        return attrs.evolve(
            one,
            flows=tuple(flow.removeprefix(f"{token.owner}.") for flow in visible),
            others=others,
            error=None if one.error is None else self._clean(token.owner, one.error),
        )

    def _may_name(self, token: Token, flow: str) -> bool:
        owner = flow.partition(".")[0]
        return owner == token.owner or self.registry.owner(owner).is_open

    def outputs(self, token: Token, owner: str, name: str) -> list[dict[str, Any]]:
        """The files of a flow's outputs."""
        self._need_owner(token, owner, name)
        found = []
        for sink, place in self._need(owner, name).places.items():
            folder = self.registry.owner(owner).outputs / place
            files = sorted(one for one in folder.iterdir() if _is_output(one)) if folder.is_dir() else []
            listed = [{"name": one.name, "bytes": one.stat().st_size} for one in files]
            found.append({"sink": sink, "place": place, "files": listed})
        return found

    def output_file(self, token: Token, owner: str, name: str, sink: str, file: str) -> Path:
        """The path of a file of an output."""
        self._need_owner(token, owner, name)
        place = self._need(owner, name).places.get(sink)
        path = None if place is None else self.registry.owner(owner).outputs / place / file
        if path is None or "/" in file or not _is_output(path):
            raise Refused(404, "TT402", f"flow {name!r} has no output {sink!r} with a file {file!r}", "see its outputs")
        return path

    def catalog(self, token: Token) -> dict[str, Any]:
        """What JSON may name."""
        inputs = [one.name for one in self.registry.inputs.values() if token.is_administrator or one.is_for(token.owner)]
        return {"types": ["source", "sink", *sorted(self.registry.operators)], "inputs": sorted(inputs)}

    # --------------------------------------------------------------------------------------------------- tokens

    def make_token(self, token: Token, owner: str, role: Role, days: float) -> dict[str, Any]:
        """A new token. Its text is in the answer, and nowhere else."""
        self._need_role(token, "administrator")
        if not is_name(owner):
            raise Refused(422, "TT402", f"the owner is {owner!r}", "give letters, digits, '-' and '_'")
        try:
            text, made = self.accounts.make_token(owner, role, days)
        except UsageError as error:
            raise refused_of(error) from error
        self.accounts.log(token, "token", f"{made.id} of {owner}, {role}", "done")
        return {"token": text, "id": made.id, "owner": owner, "role": role, "expires": made.expires}

    def revoke(self, token: Token, id: str) -> dict[str, Any]:
        """End a token: an administrator any, others that of their own with which they ask."""
        if not token.is_administrator and id != token.id:
            raise Refused(403, "TT415", "only an administrator ends tokens of others", "ask one")
        if not self.accounts.revoke(id):
            raise Refused(404, "TT402", f"there is no token {id!r}", "see the list of tokens")
        self.accounts.log(token, "revoke", id, "done")
        return {"revoked": id}

    # --------------------------------------------------------------------------------------------------- inside

    def _change(
        self,
        token: Token,
        action: str,
        name: str,
        request: Mapping[str, Any],
        key: str | None,
        steps: _Steps,
    ) -> dict[str, Any]:
        """A change: once for each idempotency key, and written to the audit log."""
        self._need_role(token, "owner")
        if not is_name(name):
            raise Refused(422, "TT402", f"the name of a flow is {name!r}", "give letters, digits, '-' and '_'")
        mark = (token.owner, key or "")
        with self._lock:
            if key is not None and mark in self._running_keys:
                raise Refused(409, "TT418", "a request with this idempotency key is being done", "ask again in a second")
            if self._busy.get(token.owner, 0) >= MOST_AT_ONCE:
                raise Refused(429, "TT416", f"{MOST_AT_ONCE} changes of this owner are being done", "ask again when one is over")
            self._busy[token.owner] = self._busy.get(token.owner, 0) + 1
            self._running_keys.add(mark)
        try:
            again, answer = False, None
            digest = _digest({"action": action, "name": name, **request})
            with self.accounts.together():
                if key is not None:
                    again, answer = self.accounts.answer_to(token.owner, key, digest)
                if answer is None:
                    steps.note(again)
            if answer is None:
                done = steps.do(again)
                with self.accounts.together():
                    answer = steps.end(done)
                    self.accounts.log(token, action, name, "done")
                    if key is not None:
                        self.accounts.answered(token.owner, key, answer)
            return answer
        except Exception as error:
            refused = self._refused(token, error)
            if refused.plain["code"] != "TT418":
                self.accounts.log(token, action, name, str(refused.plain["code"]))
                if key is not None:  # nothing was done: the same request may be tried again
                    self.accounts.answered(token.owner, key, None)
            raise refused from error
        finally:
            with self._lock:
                self._busy[token.owner] -= 1
                self._running_keys.discard(mark)

    def _worker_for(self, token: Token, request: Mapping[str, Any]) -> str:
        """Which process runs a dataflow. Raises :class:`Refused` ``TT422`` for a target in Python that is not allowed."""
        if request["flow"] is not None:
            return ""
        target, owner = str(request["target"]), self.registry.owner(token.owner)
        module = target.partition(":")[0]
        if not any(module == one or module.startswith(f"{one}.") for one in owner.packages):
            allowed = ", ".join(owner.packages) or "none"
            fix = "submit it as JSON, or ask the administrator to allow the package"
            raise Refused(422, "TT422", f"{module} is no package that {token.owner} may submit: {allowed}", fix)
        if not AVAILABLE:
            fix = "submit it as JSON"
            raise Refused(422, "TT422", "the kernel of the service cannot confine code of its owners (Landlock)", fix)
        return token.owner

    def _need(self, owner: str, name: str) -> Flow:
        found = self.accounts.flow(owner, name)
        if found is None:
            raise Refused(404, "TT402", f"there is no flow {name!r}", "see the list of flows")
        return found

    def _need_owner(self, token: Token, owner: str, name: str) -> None:
        if owner != token.owner and not token.is_administrator:  # as if it were not there
            raise Refused(404, "TT402", f"there is no flow {name!r}", "see the list of flows")

    def _need_role(self, token: Token, role: Role) -> None:
        if token.role != role:
            raise Refused(403, "TT415", f"the token is one of a {token.role}; this takes one of an {role}", "use another token")

    def _refused(self, token: Token, error: Exception) -> Refused:
        refused = error if isinstance(error, Refused) else refused_of(error)
        plain = refused.plain
        problems = [{name: self._clean(token.owner, one) for name, one in each.items()} for each in plain["problems"]]
        message, fix = self._clean(token.owner, plain["message"]), self._clean(token.owner, plain["fix"])
        return Refused(refused.status, str(plain["code"]), message, fix, problems)

    def _view(self, token: Token, flow: Flow, shown: Mapping[str, Any] | None) -> dict[str, Any]:
        """A flow as its owner may see it."""
        empty: dict[str, Any] = {"operators": 0, "shared": 0, "begins": None, "brings": [], "notes": []}
        empty |= {"rows": 0, "late": 0, "rejects": 0, "seconds": 0.0, "saved": 0.0}
        state = {"state": flow.state if flow.state != "running" else "unknown", "error": flow.reason}
        view = {**empty, **state, **({} if shown is None or flow.state == "stopped" else shown)}
        for word in ("places", "addresses"):
            view.pop(word, None)
        own = self.accounts.flow(flow.owner, flow.name) or flow
        return {
            **view,
            "owner": flow.owner,
            "name": flow.name,
            "kind": "json" if not flow.worker else "python",
            "submitted": flow.submitted,
            "error": None if view["error"] is None else self._clean(flow.owner, view["error"]),
            "notes": [self._clean(flow.owner, one) for one in view["notes"]],
            "outputs": dict(own.places),
        }

    def _clean(self, owner: str, text: str) -> str:
        """A text without names of others and without folders of this machine."""
        names = self.accounts.names() if "." in text else ()

        def instead(found: re.Match[str]) -> str:
            whose, _, name = found.group(1).partition(".")
            if (whose, name) not in names:
                return found.group(0)
            return name if whose == owner else "another flow"

        text = _FLOW.sub(instead, text)
        roots = [self.registry.owner(owner).outputs, *(each.outputs for each in self.registry.owners.values())]
        for root in sorted({str(one) for one in roots} | {str(self.registry.folder)}, key=len, reverse=True):
            text = text.replace(f"{root}/", "").replace(root, ".")
        return text


def _digest(request: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


def _is_output(path: Path) -> bool:
    return path.name[:1] not in ("_", ".") and not path.is_symlink() and path.is_file()
