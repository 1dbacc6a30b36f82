from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Javascript = Callable[[str], str]

#: What each contract takes: function -> (number of arguments, whether it is only evaluated).
FUNCTIONS = {
    "smallbank": {
        "create_account": (4, False),
        "deposit_checking": (2, False),
        "transact_savings": (2, False),
        "write_check": (2, False),
        "send_payment": (3, False),
        "amalgamate": (2, False),
        "query": (1, True),
    },
    "simple": {"open": (2, False), "query": (1, True), "transfer": (3, False)},
    "marbles": {"initMarble": (4, False), "readMarble": (1, True), "transferMarble": (2, False)},
}
WORKLOADS = (
    "smallbank-create",
    "smallbank-mix",
    "simple-open",
    "simple-query",
    "simple-transfer",
    "marbles-init",
    "marbles-read",
    "marbles-transfer",
)


def requests(javascript: Javascript, workload: str, arguments: dict[str, Any], worker: int = 0) -> list[dict[str, Any]]:
    """All that one worker asks for in 200 transactions, preparation included."""
    out = javascript(f"""
        const {{ Ledger }} = require('@hyperledger/caliper-core');
        const {{ createWorkloadModule }} = require(process.env.CONFIGS + '/workloads/{workload}.js');
        (async () => {{
            const ledger = new Ledger();
            const workload = createWorkloadModule();
            await workload.initializeWorkloadModule({worker}, 2, 1, {json.dumps(arguments)}, ledger, {{}});
            for (let i = 0; i < 200; i += 1) await workload.submitTransaction();
            console.log(JSON.stringify(ledger.requests));
        }})();
    """)
    found: list[dict[str, Any]] = json.loads(out)
    return found


def test_every_module_is_tested(configs: Path) -> None:
    entries = {path.stem for path in (configs / "workloads").glob("*.js")} - {"contract-workload", "marbles-workload"}
    assert entries == set(WORKLOADS)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_requests_are_what_the_contract_takes(javascript: Javascript, workload: str) -> None:
    contract = workload.split("-")[0]
    found = requests(javascript, workload, {"invokerMspIds": ["Org1MSP", "Org2MSP"]}, worker=1)
    assert len(found) >= 200
    for request in found:
        assert request["contractId"] == contract
        assert request["invokerMspId"] == "Org2MSP"
        count, evaluated = FUNCTIONS[contract][request["contractFunction"]]
        assert len(request["contractArguments"]) == count
        assert all(isinstance(argument, str) and argument for argument in request["contractArguments"])
        assert request["readOnly"] is evaluated


@pytest.mark.parametrize(("workload", "makes"), [("smallbank-create", 0), ("simple-open", 0), ("marbles-init", 0)])
def test_no_two_workers_and_no_two_runs_share_a_name(javascript: Javascript, workload: str, makes: int) -> None:
    runs = [requests(javascript, workload, {}, worker) for worker in (0, 1, 0)]
    names = [request["contractArguments"][makes] for run in runs for request in run]
    assert len(set(names)) == len(names) == 600


def test_the_mix_uses_what_it_has_prepared(javascript: Javascript) -> None:
    found = requests(javascript, "smallbank-mix", {"accounts": 120})
    made = [r["contractArguments"][0] for r in found if r["contractFunction"] == "create_account"]
    assert len(made) == len(set(made)) == 120
    for request in found[120:]:
        accounts = [argument for argument in request["contractArguments"] if "-" in argument]
        assert accounts
        assert set(accounts) <= set(made)
        assert len(set(accounts)) == len(accounts)
    assert {request["contractFunction"] for request in found[120:]} == set(FUNCTIONS["smallbank"]) - {"create_account"}


def test_a_seed_decides_all_choices(javascript: Javascript) -> None:
    def choices(seed: int) -> list[str]:
        found = requests(javascript, "smallbank-mix", {"accounts": 10, "seed": seed})
        return [request["contractFunction"] for request in found]

    assert choices(7) == choices(7)
    assert choices(7) != choices(8)


def test_shares_decide_the_mix(javascript: Javascript) -> None:
    found = requests(javascript, "smallbank-mix", {"accounts": 10, "shares": {"query": 1, "send_payment": 3}})
    counted = Counter(request["contractFunction"] for request in found[10:])
    assert set(counted) == {"query", "send_payment"}
    assert counted["send_payment"] > counted["query"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"accounts": 0}, "accounts: 0; a whole number from 1"),
        ({"seed": "x"}, 'seed: "x"; a whole number from 1'),
        ({"shares": {"steal": 1}}, "steal; amalgamate, query"),
    ],
)
def test_a_bad_argument_is_named(javascript: Javascript, arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        requests(javascript, "smallbank-mix", arguments)


def test_all_workers_together_prepare_no_more_at_once_than_a_gateway_takes(javascript: Javascript) -> None:
    most = javascript("""
        const { createWorkloadModule } = require(process.env.CONFIGS + '/workloads/simple-query.js');
        let inside = 0, most = 0;
        const sendRequests = async () => {
            inside += 1;
            most = Math.max(most, inside);
            await new Promise(setImmediate);
            inside -= 1;
            return { GetStatus: () => 'success' };
        };
        createWorkloadModule().initializeWorkloadModule(0, 12, 0, { accounts: 100 }, { sendRequests }, {})
            .then(() => console.log(most));
    """)
    assert int(most) == 400 // 12


def test_a_preparation_that_fails_stops_the_round(javascript: Javascript) -> None:
    with pytest.raises(AssertionError, match="100 of 100 records could not be made in simple"):
        javascript("""
            const { Ledger } = require('@hyperledger/caliper-core');
            const { createWorkloadModule } = require(process.env.CONFIGS + '/workloads/simple-query.js');
            createWorkloadModule().initializeWorkloadModule(0, 1, 0, {}, new Ledger('failed'), {});
        """)


def test_the_observer_counts_by_latency(javascript: Javascript, tmp_path: Path) -> None:
    javascript(f"""
        const {{ createTxObserver }} = require(process.env.CONFIGS + '/observers/latency.js');
        const result = (status, created, ended) =>
            ({{ GetStatus: () => status, GetTimeCreate: () => created, GetTimeFinal: () => ended }});
        (async () => {{
            const observer = createTxObserver({{ directory: {json.dumps(str(tmp_path))} }}, undefined, 3);
            await observer.activate(0, 'a');
            observer.txSubmitted(2);
            observer.txFinished(result('success', 1000, 1005));
            observer.txFinished([result('success', 990, 995), result('failed', 980, 2000)]);
            await observer.deactivate();
            await observer.activate(1, 'b');
            await observer.deactivate();
        }})();
    """)
    first, second = map(json.loads, (tmp_path / "latency-3.jsonl").read_text().splitlines())
    assert first == {
        "round": 0,
        "label": "a",
        "succeeded": 2,
        "failed": 1,
        "first": 980,
        "last": 2000,
        "latencies": {"5": 2},
    }
    assert (second["label"], second["first"], second["latencies"]) == ("b", None, {})
