/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/stop.h"

#include <stddef.h>

#include "cli/command.h"

volatile sig_atomic_t stop_signal;

static void ask_to_stop(int signal_number)
{
    stop_signal = signal_number;
    signal(signal_number, SIG_DFL);
}

void stop_catch(void)
{
    static const int signals[] = {SIGHUP, SIGINT, SIGTERM};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (signal(signals[i], ask_to_stop) == SIG_IGN)
            signal(signals[i], SIG_IGN);
}

int stop_fail(const char *left, struct error *err)
{
    error_set_status(err, ERROR_FAILED, "stopped by signal %d; %s", (int)stop_signal, left);
    command_fail(err);
    return 128 + stop_signal;
}
