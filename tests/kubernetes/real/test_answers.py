"""What the fake of CI goes by is what this server answers. Before the others: it is had with a fresh cluster."""
import json

import protocol
from cluster import ROOT


def test_the_server_answers_as_it_was_recorded_to(cluster):
    answered = protocol.Conversation(cluster).normal()
    recorded = json.loads((ROOT / "tests" / "kubernetes" / "data" / "protocol.json").read_text())
    assert len(answered) == len(recorded)
    for ours, theirs in zip(answered, recorded):
        assert ours == theirs
