"""Ctrl-C while a rank waits for others: Python handles signals only between its own instructions, so the wait must end."""
import os
import signal
import threading

_PATIENCE = 1.0  # seconds in which a call may end by itself


def end_waits_on_interrupts(ranks):
    """From now on, SIGINT ends the communication of this process if a call of the engine keeps Python from handling it. For the
    main thread, and unless the program has handlers of its own."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    told, tells = os.pipe()
    os.set_blocking(tells, False)
    other = signal.set_wakeup_fd(tells, warn_on_full_buffer=False)
    if other != -1:  # of an event loop
        signal.set_wakeup_fd(other)
        os.close(told)
        os.close(tells)
        return
    handled = threading.Event()

    def handle(number, frame):
        handled.set()
        signal.default_int_handler(number, frame)

    def watch():
        while signals := os.read(told, 64):
            if signal.SIGINT in signals and not handled.wait(_PATIENCE):
                ranks.abort("Ctrl-C ended this rank")
            handled.clear()
    signal.signal(signal.SIGINT, handle)
    threading.Thread(target=watch, name="colossal-interrupts", daemon=True).start()
