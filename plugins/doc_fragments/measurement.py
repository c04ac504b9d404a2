# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Options and attributes that every measuring module shares."""

    DOCUMENTATION = r"""
options:
  endpoint:
    description:
      - Base URL of the server, without C(/v1). C(http) and C(https) are spoken; no proxy is ever used.
    type: str
    default: http://127.0.0.1:8090
  model:
    description:
      - Name of the model to ask for. By default the one that the server says it serves.
      - A name that the server does not serve is refused before anything else is sent.
    type: str
  results_path:
    description:
      - File on the box that gets the result document (see C(docs/schema/result.schema.json)), written whole or not at
        all, with mode 0600. Its directory is made when it is missing.
      - While the measurement runs, C(<results_path>.progress) says how far it is and C(<results_path>.partial) holds
        what is finished; M(lobes.spike.measurement_info) reads both.
      - A sweep or a decode that was interrupted goes on where it was when it is started again with the same options on
        the same boot of the engine (C(boot_id) in O(context)).
      - An earlier result is set aside as C(<results_path>.earlier-<time>), a half-written file as
        C(<results_path>.broken-<time>).
      - Without a path nothing is written and the returned RV(ignore:result) is all there is.
    type: path
  request_timeout_s:
    description:
      - Seconds after which an unfinished request is a failed sample. By default there is no limit, since a cold
        prefill of a million tokens is silent for half an hour.
    type: float
  stall_time_limit_s:
    description:
      - Seconds without an event from the server B(and) without any movement of the engine's own gauges, after which a
        request is a failed sample. Where the gauges cannot be read, silence on the wire alone decides. No limit by
        default.
    type: float
  time_limit_s:
    description:
      - Seconds after which the whole measurement ends. Requests that are under way become failed samples, what was
        measured is kept, and the status is V(ignore:partial). SIGTERM ends it in the same way. No limit by default.
    type: float
  remeasure:
    description:
      - Whether to measure again what was measured whole already. By default an earlier result of the same plan on the
        same boot of the engine is returned as it is (RV(ignore:reused)).
    type: bool
    default: false
  detached:
    description:
      - Whether the measurement runs as a job of the box that outlives the connection and the controller, and is only
        watched from here. A watch that finds another job at work on O(results_path) takes that one up.
      - Needs O(results_path), and a task without C(async). A line says where it stands each time that changes.
    type: bool
    default: false
  poll_s:
    description: Seconds between two looks at a detached measurement; the first ones come sooner.
    type: float
    default: 5.0
  reconnect_limit_s:
    description:
      - Seconds that the box may be out of reach while a detached measurement is watched. After that the task is
        unreachable, and the measurement goes on all the same.
    type: float
    default: 900.0
  telemetry_path:
    description: Folder of M(lobes.spike.telemetry) on the box; heat and power are then told beside the progress.
    type: path
  extra_body:
    description:
      - Fields laid over the body of every request. A null takes a field out, for a server that refuses one that it
        does not know (for example C(chat_template_kwargs)).
      - What the phase decides itself (model, messages, stream, token counts) is refused here.
    type: dict
    default: {}
  context:
    description:
      - Kept word for word in the result document, such as spike id, box, arm and boot id.
    type: dict
    default: {}
  api_key_file:
    description:
      - File on the box that holds the server's API key. Mutually exclusive with O(api_key_env).
      - The key itself is never an option and never in a result.
    type: path
  api_key_env:
    description:
      - Name of the environment variable, where the module runs, that holds the server's API key.
    type: str
  active_model_bytes:
    description:
      - Bytes that one decode step must read for one stream (for a mixture of experts, of the active ones). With
        O(memory_bandwidth_bytes_s) it bounds the decode speed that can be true; a figure above it is named.
    type: float
  memory_bandwidth_bytes_s:
    description:
      - The box's memory bandwidth in bytes per second.
    type: float
attributes:
  check_mode:
    description: Can run in check mode.
    support: full
    details: The plan is returned as C(planned); nothing is sent and nothing is written.
  diff_mode:
    description: Returns what changed in diff mode.
    support: none
"""
