# To be sourced. A Ctrl-C that comes while bash waits for a foreground command which then ends well counts as that command's,
# and no trap runs. `wait` is left at once: so what looks for something again and again pauses like this, and looks with
# what bash can do by itself.

pause() { sleep "$1" & wait $! || true; }

said() {  # said FILE WORDS
  local lines=()
  { mapfile -t lines <"$1"; } 2>/dev/null || return 1
  [[ "${lines[*]}" == *"$2"* ]]
}
