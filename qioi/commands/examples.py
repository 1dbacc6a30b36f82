"""Commands as they are typed, for the end of each ``--help``; a test has the command line take every one of them."""

from __future__ import annotations

EXAMPLES = {
    "run": ("qioi run -c /etc/qioi/qioi.yaml", "qioi run -c qioi.yaml --dry-run"),
    "status": ("qioi status", "qioi status --output json | jq '.components[] | {name, share}'"),
    "top": ("qioi top", "qioi top --interval 0.5"),
    "explain": ("qioi explain peer0-org1", "qioi explain peer0-org1 --output json | jq .levels"),
    "adopt": ("qioi adopt peer0", "qioi adopt peer0 --socket /run/qioi/other.sock"),
    "threshold": ("qioi threshold mychannel 400", "qioi threshold mychannel auto"),
    "mine": ("qioi mine system.slice/caliper.service",),
    "profile": (
        "qioi profile --seconds 5",
        "qioi profile --cgroup peer0=system.slice/peer0.service --cgroup others='batch.slice/*' --output json",
    ),
    "check": (
        "qioi check",
        "qioi check -c /etc/qioi/qioi.yaml",
        "qioi check -c qioi.yaml --output json | jq .problems",
    ),
    "restore": ("qioi restore", "qioi restore -c /etc/qioi/qioi.yaml"),
    "kubectl": (
        "kubectl qioi status",
        "kubectl qioi explain payments -n ledger",
        "kubectl qioi restore -n ledger",
    ),
    "replay": ("qioi replay peer0.log.1 peer0.log", "qioi replay --threshold 400 --output json peer0.log | jq"),
    "lab": (
        "qioi lab up --mode block",
        "qioi lab load --rate 200 --duration 30s",
        "qioi lab status --output json",
        "qioi lab down",
    ),
    "demo": ("qioi demo", "qioi demo --sysbench 16 --law proportional"),
    "experiment": ("qioi experiment list", "qioi experiment run fig_8 --repeats 3", "qioi experiment report"),
    "completion": ('eval "$(qioi completion bash)"', "qioi completion zsh --install"),
}


def examples(name: str) -> str:
    """Give those of one command, for the end of its help."""
    return "\n".join(("\b\nExamples:", *(f"  {line}" for line in EXAMPLES[name])))
