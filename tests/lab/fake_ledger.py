#!/usr/bin/env python3
"""A stand-in for qioi-ledger that only starts, answers and stops."""

import json
import os
import signal
import socket
import sys
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path


def option(name, default=None):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def init():
    directory = Path(option("--dir"))
    base = int(option("--base-port", "17000"))
    nodes = []
    names = [("orderer", f"orderer{i + 1}") for i in range(int(option("--orderers")))]
    for org in range(int(option("--orgs"))):
        for peer in range(int(option("--peers-per-org"))):
            names.append(("peer", f"peer{peer}-org{org + 1}"))
            names.append(("chaincode", f"cc-smallbank-peer{peer}-org{org + 1}"))
    for index, (role, name) in enumerate(names):
        node = {"name": name, "role": role, "address": f"127.0.0.1:{base + 2 * index}", "log": f"log/{name}.log"}
        if role != "chaincode":
            node["operations"] = f"127.0.0.1:{base + 2 * index + 1}"
        node["args"] = [role, "--ops" if role != "chaincode" else "--listen", node.get("operations", node["address"])]
        nodes.append(node)
    document = {"channels": ["mychannel"], "mode": option("--mode"), "consenter": option("--consenter"), "nodes": nodes}
    (directory / "network.json").write_text(json.dumps(document))


class Healthy(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args):
        pass


def node():
    role, address = sys.argv[1], sys.argv[3]
    host, port = address.split(":")
    print(f"{role} starts", file=sys.stderr, flush=True)
    try:
        if role == "chaincode":
            server = socket.create_server((host, int(port)))
            while True:
                server.accept()[0].close()
        HTTPServer((host, int(port)), Healthy).serve_forever()
    except OSError as error:
        sys.exit(f"cannot listen on {address}: {error.strerror}")


def load():
    def seconds(name):
        return float(option(name, "1s").rstrip("s"))

    began = time.time()
    start = began + seconds("--warmup")
    end = start + seconds("--duration")
    time.sleep(end - began)
    rows = [{"unix": began + i, "tps": 100, "p95_ms": 4.0} for i in range(int(end - began))]
    latency = {"mean": 2.0, "p50": 2.0, "p95": 4.0, "p99": 6.0, "max": 9.0}
    document = {
        "intended_rate": float(option("--rate", "0")),
        "seconds": end - start,
        "throughput_tps": 100.0,
        "started": datetime.fromtimestamp(start, UTC).isoformat(),
        "committed": 100,
        "failed": 0,
        "unsent": 0,
        "latency_ms": latency,
        "timeseries": rows,
    }
    if option("--json"):
        Path(option("--json")).write_text(json.dumps(document))
    print("load", sys.argv[2:])


signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
if sys.argv[1] == "init":
    init()
elif sys.argv[1] == "load":
    load()
else:
    node()
