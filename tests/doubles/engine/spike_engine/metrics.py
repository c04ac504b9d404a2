# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The exposition of /metrics, with vLLM 0.29.0's names."""

from __future__ import annotations

import bisect
import time

TIME = (
    0.001,
    0.005,
    0.01,
    0.02,
    0.04,
    0.06,
    0.08,
    0.1,
    0.25,
    0.5,
    0.75,
    1.0,
    2.5,
    5.0,
    7.5,
    10.0,
    20.0,
    40.0,
    80.0,
    160.0,
    640.0,
    2560.0,
)
GAP = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
REQUEST = (
    0.3,
    0.5,
    0.8,
    1.0,
    1.5,
    2.0,
    2.5,
    5.0,
    10.0,
    15.0,
    20.0,
    30.0,
    40.0,
    50.0,
    60.0,
    120.0,
    240.0,
    480.0,
    960.0,
    1920.0,
    7680.0,
)
TOKENS = tuple(float(m * 10**e) for e in range(7) for m in (1, 2, 5))
STEP = tuple(float(2**e) for e in (0, *range(3, 15)))

COUNTERS = {
    "prefix_cache_queries": "Prefix cache queries, in terms of number of queried tokens.",
    "prefix_cache_hits": "Prefix cache hits, in terms of number of cached tokens.",
    "external_prefix_cache_queries": "External prefix cache queries.",
    "external_prefix_cache_hits": "External prefix cache hits.",
    "mm_cache_queries": "Multi-modal cache queries.",
    "mm_cache_hits": "Multi-modal cache hits.",
    "num_preemptions": "Cumulative number of preemption from the engine.",
    "prompt_tokens": "Number of prefill tokens processed.",
    "prompt_tokens_cached": "Number of cached prompt tokens (local + external).",
    "generation_tokens": "Number of generation tokens processed.",
}
LABELLED = {
    "prompt_tokens_by_source": ("source", ("local_compute", "local_cache_hit", "external_kv_transfer")),
    "request_success": ("finished_reason", ("stop", "length", "abort", "error", "repetition")),
}
SPEC = ("spec_decode_num_drafts", "spec_decode_num_draft_tokens", "spec_decode_num_accepted_tokens")
HISTOGRAMS = {
    "request_prompt_tokens": TOKENS,
    "request_generation_tokens": TOKENS,
    "iteration_tokens_total": STEP,
    "request_max_num_generation_tokens": TOKENS,
    "request_params_n": (1.0, 2.0, 5.0, 10.0, 20.0),
    "request_params_max_tokens": TOKENS,
    "time_to_first_token_seconds": TIME,
    "inter_token_latency_seconds": GAP,
    "request_time_per_output_token_seconds": GAP,
    "e2e_request_latency_seconds": REQUEST,
    "request_queue_time_seconds": REQUEST,
    "request_inference_time_seconds": REQUEST,
    "request_prefill_time_seconds": REQUEST,
    "request_decode_time_seconds": REQUEST,
    "request_prefill_kv_computed_tokens": TOKENS,
}


class Metrics:
    """Counters, gauges and histograms of one engine."""

    def __init__(self, model: str, spec_k: int, cache_config: dict[str, str]) -> None:
        self.model, self.spec_k, self.cache_config = model, spec_k, cache_config
        self.running = self.waiting = 0
        self.kv_usage = 0.0
        self.http: dict[tuple[str, str, str], int] = {}
        self.reset()

    def reset(self) -> None:
        """Everything counted so far is forgotten."""
        self.created = time.time()
        self.counters: dict[str, float] = dict.fromkeys((*COUNTERS, *SPEC), 0.0)
        self.labelled = {name: dict.fromkeys(values, 0.0) for name, (_, values) in LABELLED.items()}
        self.accepted_at = [0.0] * self.spec_k
        self.histograms: dict[str, list[float]] = {name: [0.0] * (len(b) + 1) for name, b in HISTOGRAMS.items()}
        self.sums: dict[str, float] = dict.fromkeys(HISTOGRAMS, 0.0)

    def add(self, name: str, amount: float = 1.0, label: str | None = None) -> None:
        """A counter grows."""
        if label is None:
            self.counters[name] += amount
        else:
            self.labelled[name][label] += amount

    def observe(self, name: str, value: float, times: int = 1) -> None:
        """A histogram takes a value, as often as times says."""
        self.histograms[name][bisect.bisect_left(HISTOGRAMS[name], value)] += times
        self.sums[name] += value * times

    def _sample(self, name: str, value: float, **labels: str) -> str:
        inner = ",".join(f'{k}="{v}"' for k, v in sorted({"engine": "0", "model_name": self.model, **labels}.items()))
        return f"{name}{{{inner}}} {value!r}"

    def _counter(self, name: str, text: str, series: list[tuple[dict[str, str], float]]) -> list[str]:
        out = [f"# HELP vllm:{name}_total {text}", f"# TYPE vllm:{name}_total counter"]
        out += [self._sample(f"vllm:{name}_total", value, **labels) for labels, value in series]
        out += [f"# HELP vllm:{name}_created {text}", f"# TYPE vllm:{name}_created gauge"]
        return out + [self._sample(f"vllm:{name}_created", self.created, **labels) for labels, _ in series]

    def _gauge(self, name: str, text: str, series: list[tuple[dict[str, str], float]]) -> list[str]:
        out = [f"# HELP vllm:{name} {text}", f"# TYPE vllm:{name} gauge"]
        return out + [self._sample(f"vllm:{name}", float(value), **labels) for labels, value in series]

    def _histogram(self, name: str) -> list[str]:
        out = [f"# HELP vllm:{name} Histogram of {name}.", f"# TYPE vllm:{name} histogram"]
        total = 0.0
        for bound, count in zip((*HISTOGRAMS[name], float("inf")), self.histograms[name], strict=True):
            total += count
            out.append(self._sample(f"vllm:{name}_bucket", total, le="+Inf" if bound == float("inf") else repr(bound)))
        out.append(self._sample(f"vllm:{name}_count", total))
        out.append(self._sample(f"vllm:{name}_sum", self.sums[name]))
        return out

    def render(self, engine_stats: bool) -> str:
        """The exposition; without engine statistics only what the web server counts."""
        out = [
            "# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.",
            "# TYPE process_start_time_seconds gauge",
            f"process_start_time_seconds {self.created!r}",
            "# HELP process_cpu_seconds_total Total user and system CPU time spent in seconds.",
            "# TYPE process_cpu_seconds_total counter",
            f"process_cpu_seconds_total {time.process_time()!r}",
        ]
        if engine_stats:
            out += self._engine()
        out += [
            "# HELP http_requests_total Total number of requests by method, status and handler.",
            "# TYPE http_requests_total counter",
        ]
        out += [
            f'http_requests_total{{handler="{h}",method="{m}",status="{s}"}} {float(n)!r}'
            for (h, m, s), n in self.http.items()
        ]
        return "\n".join(out) + "\n"

    def _engine(self) -> list[str]:
        out: list[str] = []
        if self.spec_k:
            for name in SPEC:
                out += self._counter(name, name.replace("_", " "), [({}, self.counters[name])])
            out += self._counter(
                "spec_decode_num_accepted_tokens_per_pos",
                "Accepted tokens per draft position.",
                [({"position": str(i)}, n) for i, n in enumerate(self.accepted_at)],
            )
        out += self._gauge(
            "num_requests_running", "Number of requests in model execution batches.", [({}, self.running)]
        )
        out += self._gauge("num_requests_waiting", "Number of requests waiting to be processed.", [({}, self.waiting)])
        out += self._gauge(
            "num_requests_waiting_by_reason",
            "Number of waiting requests by reason.",
            [({"reason": "capacity"}, self.waiting), ({"reason": "deferred"}, 0)],
        )
        out += self._gauge(
            "engine_sleep_state",
            "Engine sleep state.",
            [({"sleep_state": s}, s == "awake") for s in ("awake", "weights_offloaded", "discard_all")],
        )
        out += self._gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", [({}, self.kv_usage)])
        for name, text in COUNTERS.items():
            out += self._counter(name, text, [({}, self.counters[name])])
        for name, (label, _) in LABELLED.items():
            out += self._counter(
                name, name.replace("_", " "), [({label: k}, v) for k, v in self.labelled[name].items()]
            )
        for name in HISTOGRAMS:
            out += self._histogram(name)
        inner = ",".join(f'{k}="{v}"' for k, v in sorted({"engine": "0", **self.cache_config}.items()))
        return [
            *out,
            "# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig",
            "# TYPE vllm:cache_config_info gauge",
            f"vllm:cache_config_info{{{inner}}} 1.0",
        ]
