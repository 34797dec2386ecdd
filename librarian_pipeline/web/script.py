"""The only script there is: a link to a moment moves the player of its page, instead of opening the audio by itself."""

JAVASCRIPT = """\
"use strict";
const player = document.querySelector("audio");
if (player) {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-seconds]");
    if (!link || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    player.currentTime = Number(link.dataset.seconds);
    player.play().catch(() => player.focus());
  });
}
"""
