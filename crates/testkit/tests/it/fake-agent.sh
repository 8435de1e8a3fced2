#!/bin/sh
# Stands in for the agent: takes its options, says it is ready, and waits for a signal.
echo "fake agent: $*"
shift
while [ $# -gt 0 ]; do
    case $1 in
    --listen) listen=$2 ;;
    --ready-file) ready=$2 ;;
    --token-file) [ -e "$2" ] || echo made >"$2" ;;
    --fail) echo "fake failure" >&2; exit 3 ;;
    --child) sleep 1000 & ;;
    esac
    shift
done
case $listen in
unix:*) url=$listen ;;
*) url=http://$listen ;;
esac
printf '{"url":"%s","pid":%d}' "$url" $$ >"$ready"
# Becomes the sleep, so that a SIGKILL leaves nothing behind.
exec sleep 1000
