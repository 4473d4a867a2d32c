#!/bin/sh
# A server, two workers of its queue, and a run that gives them the files of a folder:
#   examples/checksums/run.sh [FOLDER]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
runwright=${RUNWRIGHT:-runwright}
dir=$(mktemp -d)
pids=
trap 'for pid in $pids; do kill "$pid" && wait "$pid" || :; done; rm -rf "$dir"' EXIT

mkfifo "$dir/url"
"$runwright" serve --dev --workflows "$here" --data "$dir/store" --listen 127.0.0.1:0 \
    > "$dir/url" 2> "$dir/server.log" &
server=$!
exec 3< "$dir/url"
read -r url <&3 || { cat "$dir/server.log" >&2; exit 1; }

for name in one two; do
    "$runwright" worker --queue checksums --id "$name" --server "$url" -- sh "$here/checksum.sh" \
        > "$dir/$name.log" &
    pids="$pids $!"
done
# The server ends last: workers give back what they have.
pids="$pids $server"

"$runwright" run checksums --server "$url" --input folder="${1:-docs}"
