# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The approval gate of a lane: looks, asks, and only then lets the module act, all in one task."""

from __future__ import annotations

import getpass
import shlex
import time
from typing import Any

from ansible.errors import AnsibleActionFail, AnsiblePromptInterrupt, AnsiblePromptNoninteractive
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible_collections.lobes.spike.plugins.module_utils.box.approval import (
    BY_VARIABLE,
    VARIABLE,
    judge_answer,
    judge_value,
    printable,
)
from ansible_collections.lobes.spike.plugins.module_utils.results.window import utc_text

MODULE = "lobes.spike.lane"
PLAYBOOKS = {"stop": "playbooks/lightning-spike.yml", "start": "playbooks/restart-worker.yml"}

display = Display()


class ActionModule(ActionBase):
    """See the module of the same name for what it promises."""

    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Look at the lane, have it approved, act."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        host = str(variables["inventory_hostname"])
        self._refuse_detours()
        args = dict(self._task.args)
        restart = command("start", host)
        looked = self._ask_module({**args, "gate": {"look": True}}, variables)
        if looked.get("failed"):
            return {**result, **looked}
        plan = looked["plan"]
        if args.get("state", "stopped") == "stopped":
            looked["restart_command"] = restart
        if self._task.check_mode:
            return {**result, **looked, "msg": announce(plan, host)}
        gate: dict[str, Any] = {"restart_command": restart}
        if plan["action"] != "none":
            approval = self._approve(plan, host, args)
            lane = plan["lane"]
            gate["approval"] = {
                **approval,
                "box": host,
                "approved_utc": utc_text(time.time()),
                "container_id": lane["id"],
                "configuration_hash": lane["configuration_hash"],
            }
        done = self._ask_module({**args, "gate": gate}, variables)
        return {**result, **looked, **done, "changed": bool(done.get("changed"))}

    def _ask_module(self, args: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = self._execute_module(module_name=MODULE, module_args=args, task_vars=variables)
        return result

    def _refuse_detours(self) -> None:
        """Refuse what would let an approval for one box reach another, or stand in for the gate."""
        if "gate" in self._task.args:
            raise AnsibleActionFail("gate: it is filled in by the approval gate and cannot be set by a task.")
        if self._task.delegate_to:
            raise AnsibleActionFail(
                "delegate_to: a lane is approved for the box that the task runs on; do not delegate."
            )
        if self._task.run_once:
            raise AnsibleActionFail("run_once: every box's lane needs its own approval; do not run this task once.")

    def _approve(self, plan: dict[str, Any], host: str, args: dict[str, Any]) -> dict[str, str]:
        """Who approved and how. Raises AnsibleActionFail, with nothing touched, when nobody did."""
        given = load_extra_vars(self._loader)
        by = given.get(BY_VARIABLE)
        if by is not None and (not isinstance(by, str) or not by.strip()):
            raise AnsibleActionFail(f"{BY_VARIABLE} must be the name of who approves, not {by!r}. Nothing was touched.")
        who = printable(by.strip()) if by else login()
        if VARIABLE in given:
            verdict = judge_value(given[VARIABLE], host)
            source = "extra_var"
        else:
            verdict = judge_answer(self._type_the_name(plan, host, int(args.get("prompt_limit_s", 600))), host)
            source = "prompt"
        if not verdict.approved:
            raise AnsibleActionFail(
                f"{announce(plan, host)} It was not approved, and nothing was touched. {verdict.reason} "
                f"To approve: {command(plan['action'], host)}"
            )
        return {"source": source, "approved_by": who}

    def _type_the_name(self, plan: dict[str, Any], host: str, limit_s: int) -> str:
        """What the operator types at the prompt. Raises AnsibleActionFail when nobody can or does."""
        refusal = f"{announce(plan, host)} Nothing was touched. To approve: {command(plan['action'], host)}"
        began = time.monotonic()
        try:
            answer = display.prompt_until(question(plan, host), private=False, seconds=limit_s)
        except AnsiblePromptNoninteractive:
            raise AnsibleActionFail(f"Nobody is there to approve. {refusal}") from None
        except AnsiblePromptInterrupt:
            raise AnsibleActionFail(f"The prompt was interrupted. {refusal}") from None
        if time.monotonic() - began >= limit_s:
            # Half a name typed in time is no approval.
            raise AnsibleActionFail(f"There was no answer within {limit_s} s. {refusal}")
        return str(answer.decode("utf-8", "replace"))


def login() -> str:
    """The name of the controller's user; without an account, the fact that there is none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "an unnamed user of the controller"


def command(action: str, host: str) -> str:
    """The command line that approves an action for a box."""
    name = shlex.quote(host)
    return f"ansible-playbook {PLAYBOOKS[action]} -l {name} -e {VARIABLE}={name} -e {BY_VARIABLE}=YOUR_NAME"


def announce(plan: dict[str, Any], host: str) -> str:
    """One sentence: what is about to happen to which container of which box."""
    if plan["action"] == "none":
        return f"Nothing to do on {host}: {plan['reason']}"
    verb = "stop" if plan["action"] == "stop" else "start again"
    lane = plan["lane"]
    shown = f"{lane['name']} (container {str(lane['id'])[:12]}, image {lane['image']})"
    others = ", ".join(plan["others_running"]) or "none"
    return printable(f"On {host} this would {verb} the lane {shown}. Other running containers, left alone: {others}.")


def question(plan: dict[str, Any], host: str) -> str:
    """The prompt: what runs, what will happen, and what to type."""
    lane = plan["lane"]
    arguments = " ".join(lane["args"])
    lines = [
        announce(plan, host),
        f"  it runs since   {lane['started_utc']}"
        if plan["action"] == "stop"
        else f"  it is           {lane['state']}",
        f"  its command     {arguments[:400]}{' ...' if len(arguments) > 400 else ''}",
        f"  restart policy  {lane['restart_policy']}",
    ]
    if plan["action"] == "stop":
        lines.append("It is stopped, not removed, and the spike does not start it again.")
    lines.append(f"Type the name of the box ({host}) to approve; anything else refuses:")
    return "\n".join(printable(line) for line in lines)
