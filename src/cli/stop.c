/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/stop.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/check.h"
#include "cli/command.h"
#include "trace/output.h"

volatile sig_atomic_t stop_signal;
static volatile pid_t stop_process; /* owner of the files; a forked child inherits the handlers, but not the files */

static const struct {
    int number;
    const char *text;
} signals[] = {
    {SIGHUP, "slimsim: stopped by signal 1\n"},
    {SIGINT, "slimsim: stopped by signal 2\n"},
    {SIGTERM, "slimsim: stopped by signal 15\n"},
};
enum { N_SIGNALS = sizeof signals / sizeof *signals };
_Static_assert(SIGHUP == 1 && SIGINT == 2 && SIGTERM == 15, "as in their texts");

static void end_at_once(int number)
{
    if (getpid() != stop_process) {
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    output_remove_all();
    for (int i = 0; i < N_SIGNALS; i++)
        if (signals[i].number == number && write(STDERR_FILENO, signals[i].text, strlen(signals[i].text)) < 0)
            break;
    _exit(128 + number);
}

static char late_text[96]; /* message of end_late */

static void end_late(int number)
{
    (void)number; /* a forked child has no timer */
    output_remove_all();
    if (write(STDERR_FILENO, late_text, strlen(late_text)) < 0)
        _exit(ERROR_IO);
    _exit(ERROR_FAILED);
}

/** Remove the files if the process ends itself, for example without memory. */
static void remove_outputs(void)
{
    if (getpid() == stop_process)
        output_remove_all();
}

static void ask_to_stop(int signal_number)
{
    stop_signal = signal_number;
    signal(signal_number, SIG_DFL);
}

static void handle(void (*handler)(int))
{
    for (int i = 0; i < N_SIGNALS; i++)
        if (signal(signals[i].number, handler) == SIG_IGN)
            signal(signals[i].number, SIG_IGN);
}

void stop_at_once(void)
{
    stop_process = getpid();
    handle(end_at_once);
    CHECK(atexit(remove_outputs) == 0);
}

static void set_timer(double time_s)
{
    struct itimerval timer = {.it_value = {.tv_sec = (time_t)time_s, .tv_usec = (suseconds_t)(1e6 * fmod(time_s, 1))}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

void stop_after(double time_s)
{
    snprintf(late_text, sizeof late_text, "slimsim: it did not finish within %g s, the time limit\n", time_s);
    CHECK(sigaction(SIGALRM, &(struct sigaction){.sa_handler = end_late}, NULL) == 0);
    set_timer(time_s);
}

void stop_catch(void)
{
    set_timer(0);
    handle(ask_to_stop);
}

int stop_fail(const char *left, struct error *err)
{
    error_set_status(err, ERROR_FAILED, "stopped by signal %d; %s", (int)stop_signal, left);
    command_fail(err);
    return 128 + stop_signal;
}
