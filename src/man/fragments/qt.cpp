/* SPDX-License-Identifier: MIT */
#include "lock_thread.h"

#include <QCoreApplication>
#include <QSocketNotifier>

/* shown: */
int main(int argc, char **argv)
{
    QCoreApplication application(argc, argv);
    pthread_t thread = start_locks(std::getenv("LOCKWIRE_URL"));
    QSocketNotifier notifier(events[0], QSocketNotifier::Read);

    QObject::connect(&notifier, &QSocketNotifier::activated, [] {
        if (!on_lock_event()) {
            QCoreApplication::quit();
        }
    });
    QCoreApplication::exec();
    return pthread_join(thread, nullptr);
}
/* until here */
