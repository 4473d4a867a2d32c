"""Serves a small language model on the loopback until its standard input ends."""

import sys

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.prefix + "/model.gguf"
params.hostnames = ["127.0.0.1"]
params.port = 0
params.n_ctx = 2048
params.n_parallel = 1
params.cpuparams.n_threads = 1
params.warmup = False
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
