# SPDX-License-Identifier: MIT
"""The targets, and whether they are met. Every target that this run could judge is printed with
its figure. For uncontended pairs the targets are different if the server has a command that
compares and deletes. Independent of the way of measuring.

Usual course: judge(summary, counts, compares) returns [(met, what, figure), ...]"""

OWN, NO_FENCE, NO_TURNS = "lockwire default", "lockwire nofence", "lockwire noturns"
FIRST = "lockwire first"  # each release that hands over is the first one of its name

# By C: shares of the limit whose release is a script, and of the one whose release is a command.
WITHOUT_FENCE = {1: 0.95, 16: 0.90, 256: 0.90}
WITH_FENCE = {1: 0.90, 16: 0.80, 256: 0.85}
WITHOUT_FENCE_COMPARING = {1: 1.0, 16: 1.1, 256: 1.5}
WITH_FENCE_COMPARING = {1: 0.95, 16: 1.0, 256: 1.4}
OF_DELIFEQ = {1: 0.95, 16: 0.88, 256: 0.93}

OVER_TLS = 0.85  # share of the limit over TLS, at every C

MANY_ROUNDS = 10


class Judge:
    def __init__(self, summary):
        self.summary, self.verdicts = summary, []

    def at_least(self, what, value, target):
        self._note(what, value, target, ">=", value is not None and value >= target)

    def at_most(self, what, value, target):
        self._note(what, value, target, "<=", value is not None and value <= target)

    def _note(self, what, value, target, sign, met):
        if value is not None:
            self.verdicts.append((met, what, "%.4g (%s %g)" % (value, sign, target)))


def _uncontended(judge, summary, compares):
    plain, fenced = ((WITHOUT_FENCE_COMPARING, WITH_FENCE_COMPARING) if compares
                     else (WITHOUT_FENCE, WITH_FENCE))
    for key in summary.keys("U"):
        where = "U C=%d " % key[1]
        judge.at_least(where + "without fence, of the script limit",
                       summary.ratio(key, NO_FENCE, "limit plain"), plain[key[1]])
        judge.at_least(where + "without fence, of limit delifeq",
                       summary.ratio(key, NO_FENCE, "limit delifeq"), OF_DELIFEQ[key[1]])
        judge.at_least(where + "with fence, of the script limit",
                       summary.ratio(key, OWN, "limit plain"), fenced[key[1]])
        _before_the_peers(judge, summary, key, where)


def _over_tls(judge, summary):
    for key in summary.keys("tls"):
        for what, label in (("without fence", "lockwire tls-nofence"),
                            ("with fence", "lockwire tls")):
            judge.at_least("U over TLS C=%d %s, of the raw program" % (key[1], what),
                           summary.ratio(key, label, "limit tls"), OVER_TLS)


def _before_the_peers(judge, summary, key, where):
    """Compares lockwire with the best peer: without fence, as the peers are, and with fence,
    which is lockwire's default."""
    rates = [(summary.median(key, label, "rate") or 0, label) for label in summary.labels(key)
             if not label.startswith(("limit ", "lockwire "))]
    if rates:
        best = max(rates)[1]
        for what, label in (("without fence", NO_FENCE), ("with fence", OWN)):
            judge.at_least("%s%s, of the best peer (%s)" % (where, what, best),
                           summary.ratio(key, label, best), 1)


def _hand_over(judge, summary, section):
    for key in summary.keys(section):
        where = "%s W=%d turns off: " % key[:2]
        judge.at_least(where + "of limit handover",
                       summary.ratio(key, NO_TURNS, "limit handover"), 0.75)
        judge.at_most(where + "waiters without a grant",
                      summary.worst(key, NO_TURNS, "without"), 0)
        grants = summary.median(key, NO_TURNS, "grants")
        # In L the waiters at the end have sent commands to join. With many rounds they hardly
        # matter.
        if section == "D" or grants and grants >= MANY_ROUNDS * key[1]:
            judge.at_most(where + "commands per hand-over",
                          summary.median(key, NO_TURNS, "commands"), 2.2)
        judge.at_most(where + "disorder", summary.median(key, NO_TURNS, "disorder"), 0.02)
    # Shares of the limit at the same W, whose queue is a list, so that disturbances at one W
    # cancel out.
    ratios = [summary.ratio(key, NO_TURNS, "limit handover") for key in summary.keys(section)]
    if len(ratios) > 1 and all(ratios):
        judge.at_least("%s turns off: the worst of all W, of the best (flat)" % section,
                       min(ratios) / max(ratios), 0.75)


def _turns(judge, summary, section):
    for key in summary.keys(section):
        where = "%s W=%d turns of 16: " % key[:2]
        judge.at_least(where + "of the raw local turns",
                       summary.ratio(key, OWN, "limit turns"), 0.6)
        rate = summary.median(key, OWN, "rate")
        longest = summary.worst(key, OWN, "longest_us")
        if longest and rate:
            bound_ms = max(50, 4 * 1000 * key[1] / rate)  # the time of four rounds of all waiters
            judge.at_most(where + "longest wait, ms", longest / 1000, round(bound_ms))
        judge.at_most(where + "waiters without a grant",
                      summary.worst(key, OWN, "without"), 0)


def _several(judge, summary):
    for key in summary.keys("M"):
        where = "M names=%d " % key[1]
        if key[1] == 8:
            judge.at_least(where + "alone, of Redisson's MultiLock",
                           summary.ratio(key, OWN, "redisson multi"), 3)
        if key[2] > 1:
            judge.at_most(where + "of 64: the longest wait, of the mean",
                          summary.worst(key, OWN, "of_mean"), 20)
            judge.at_most(where + "of 64: users without a grant",
                          summary.worst(key, OWN, "without"), 0)


def _others(judge, summary):
    for key in summary.keys("N"):
        for label, limit, where in ((OWN, "limit handover", "N "),
                                    (FIRST, "limit first", "N at a name's first release ")):
            for figure, target in (("notify_p50_us", 1.25), ("notify_p99_us", 1.5)):
                judge.at_most("%s%s, of the limit's" % (where, figure[7:10]),
                              summary.ratio(key, label, limit, figure), target)
    for key in summary.keys("H"):
        if key[1] == 100000:
            where = "H 100,000: "
            judge.at_most(where + "resident bytes per lock",
                          summary.median(key, OWN, "bytes_per_lock"), 600)
            judge.at_most(where + "of a core on the server",
                          summary.median(key, OWN, "server_cpu_share"), 0.035)
            judge.at_most(where + "of a core in the client",
                          summary.median(key, OWN, "client_cpu_share"), 0.02)
            judge.at_most(where + "latest renewal, in leases",
                          summary.worst(key, OWN, "late_ms") / 30000, 0.1)
    for key in summary.keys("X"):
        judge.at_most("X: ms after the lease's end",
                      summary.median(key, OWN, "after_lease_ms"), 20)


def _scale(judge, summary):
    waiters = [summary.ratio(key, NO_TURNS, "limit handover")
               for key in summary.keys("waiters")]
    clients = [summary.ratio(key, OWN, "limit plain") for key in summary.keys("clients")]
    for what, ratios, target in (("waiters, turns off", waiters, 0.75),
                                 ("client processes, with fence", clients, 0.65)):
        if ratios and all(ratios):
            judge.at_least("scale: all numbers of %s: the worst, of the limit" % what,
                           min(ratios), target)
    memory = [summary.median(("H", locks, 1), OWN, "bytes_per_lock")
              for locks in (1000, 100000)]
    if all(memory):
        judge.at_most("scale: bytes per held lock, of 100,000 to of 1,000",
                      memory[1] / memory[0], 1.1)


def judge(summary, counts, compares):
    """Returns the verdicts. `compares` is the server's own command to compare and delete, or
    None."""
    result = Judge(summary)
    _uncontended(result, summary, compares)
    _over_tls(result, summary)
    for section in "DL":
        _hand_over(result, summary, section)
        _turns(result, summary, section)
    _several(result, summary)
    _others(result, summary)
    _scale(result, summary)
    if counts:
        # hiredis has a callback for each reply, which lockwire allocates in its place
        result.at_most("allocations per uncontended pair, after warm-up",
                       counts["allocations"]["uncontended"]["all"], 3)
    return result.verdicts
