#!/bin/sh
# A reward: reads a completion a line, as JSON, and answers 1 for a polite one, else 0.
while read -r line; do
  case $line in
    *'"completion":"'*'if you please.","prompt"'*) echo 1 ;;
    *) echo 0 ;;
  esac
done
