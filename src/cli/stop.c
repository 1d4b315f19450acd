/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/stop.h"

#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "trace/output.h"

volatile sig_atomic_t stop_signal;
static volatile pid_t stop_process; /* whose files they are: not those of a forked child, which inherits the handlers */

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
}

void stop_catch(void)
{
    handle(ask_to_stop);
}

int stop_fail(const char *left, struct error *err)
{
    error_set_status(err, ERROR_FAILED, "stopped by signal %d; %s", (int)stop_signal, left);
    command_fail(err);
    return 128 + stop_signal;
}
