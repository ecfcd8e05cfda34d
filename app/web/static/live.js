// Keeps the page up to date. Without it pages are whole, and a reload shows the newest.
(function () {
  "use strict";
  var BUFFER = 250; // ms: a burst of news is one refresh
  var timer = null;
  var open = [];
  var fix = null;

  function region() {
    return document.getElementById("live");
  }

  // Whoever is marking text in the page must not lose it to a refresh.
  function marking() {
    var selection = document.getSelection();
    return Boolean(selection && !selection.isCollapsed && region().contains(selection.anchorNode));
  }

  function refresh() {
    timer = null;
    if (document.hidden || marking()) {
      soon(1000);
      return;
    }
    window.htmx.trigger(region(), "refresh");
  }

  // Whoever scrolled up in a log reads there: it follows again from its end.
  function reading() {
    var log = document.getElementById("log-lines");
    return Boolean(log && log.scrollTop + log.clientHeight < log.scrollHeight - 40);
  }

  function follow() {
    var log = document.querySelector("#log-lines[data-follow]");
    if (log) {
      log.scrollTop = log.scrollHeight;
    }
  }

  document.addEventListener("DOMContentLoaded", follow);
  document.addEventListener("htmx:beforeRequest", function (event) {
    if (event.target === region() && reading()) {
      event.preventDefault();
    }
  });
  document.addEventListener("htmx:afterSwap", follow);

  function soon(wait) {
    if (timer === null) {
      timer = window.setTimeout(refresh, typeof wait === "number" ? wait : BUFFER);
    }
  }

  function proposed() {
    var card = document.getElementById("proposal");
    return card ? card.dataset.fix : null;
  }

  document.addEventListener("sse:transition", soon);
  document.addEventListener("sse:progress", soon);
  document.addEventListener("htmx:sseOpen", function () {
    document.getElementById("link-state").hidden = true;
    soon();
  });
  document.addEventListener("htmx:sseError", function () {
    document.getElementById("link-state").hidden = false;
  });

  document.addEventListener("htmx:beforeSwap", function () {
    fix = proposed();
    open = Array.from(document.querySelectorAll("details[open][id]"), function (one) {
      return one.id;
    });
  });
  document.addEventListener("htmx:afterSwap", function () {
    open.forEach(function (id) {
      var one = document.getElementById(id);
      if (one) {
        one.open = true;
      }
    });
    document.getElementById("favicon").href =
      "/ui/static/" + (Number(region().dataset.open) > 0 ? "down" : "fine") + ".svg";
    if (proposed() !== fix && proposed() !== null) {
      hold(document.querySelectorAll("#proposal button"));
    }
  });

  // A click that was meant for another proposal must not hit the one that has just taken its place.
  function hold(buttons) {
    buttons.forEach(function (button) {
      button.disabled = true;
    });
    window.setTimeout(function () {
      buttons.forEach(function (button) {
        button.disabled = false;
      });
    }, 1500);
  }

  // j and k move along the list.
  document.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) {
      return;
    }
    var step = { j: 1, k: -1 }[event.key];
    var titles = Array.from(document.querySelectorAll(".row-title"));
    if (step && titles.length) {
      var at = titles.indexOf(document.activeElement);
      titles[Math.min(Math.max(at + step, 0), titles.length - 1)].focus();
    }
  });
})();
