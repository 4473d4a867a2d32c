#!/bin/sh
# What a worker runs for each task. The task comes on standard input, {"folder": …, "part": …};
# what is written here is shown in the run; the result goes into the file that the environment names.
set -eu
task=$(cat)
field() {
    printf '%s' "$task" | sed -n "s/.*\"$1\":\"\([^\"\\\\]*\)\".*/\1/p"
}
folder=$(field folder)
part=$(field part)

if [ ! -d "$folder" ]; then
    # Trying again would not help: the run hears so.
    echo '{"error": {"code": "no_folder", "message": "there is no such folder where the workers run", "retryable": false}}'
    exit 1
fi

find "$folder" -type f | LC_ALL=C sort | awk -v part="$part" 'NR % 4 == part' |
    while IFS= read -r file; do
        sha256sum "$file"
    done |
    sed 's/[\\"]/\\&/g; s/.*/"&"/' | paste -sd, - |
    sed 's/.*/{"sums": [&]}/' > "$RUNWRIGHT_RESULT_FILE"
echo "part $part done by $RUNWRIGHT_WORKER"
