"""A real MQTT broker for a test: Debian's mosquitto on a free port of the loopback interface."""

import contextlib
import getpass
import shutil
import signal
import socket
import subprocess
import threading

import missing

MOSQUITTO = shutil.which("mosquitto", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")

_PROGRAMS = (MOSQUITTO, shutil.which("mosquitto_passwd"), shutil.which("mosquitto_pub"))

needs_mosquitto = missing.needs("mosquitto", is_there=None not in _PROGRAMS)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Mosquitto:
    """One broker. It keeps its sessions on disk, so that it can be restarted."""

    def __init__(self, folder, *lines):
        self.port = free_port()
        self.url = f"mqtt://127.0.0.1:{self.port}"
        self._folder = folder
        self._config = folder / "mosquitto.conf"
        common = ["persistence true", f"persistence_location {folder}/", "autosave_interval 0"]
        common += ["max_queued_messages 0", "max_inflight_messages 0", "log_type all"]
        # Otherwise root's broker becomes another user, who cannot write here.
        common += [f"user {getpass.getuser()}", f"listener {self.port} 127.0.0.1"]
        self._config.write_text("\n".join([*common, *(lines or ["allow_anonymous true"])]))
        self._process = None
        self.log = []
        self._logged = threading.Condition()

    def start(self):
        earlier = self.count_log(" running")
        self._process = subprocess.Popen(
            [MOSQUITTO, "-c", self._config], stderr=subprocess.PIPE, text=True, cwd=self._folder
        )
        threading.Thread(target=self._read_log, args=(self._process,), daemon=True).start()
        self.wait_for_log(" running", earlier + 1)
        return self

    def stop(self, *, kill=False):
        """A stopped broker saves its sessions, a killed one does not."""
        process, self._process = self._process, None
        while process is not None and process.poll() is None:
            process.kill() if kill else process.terminate()
            # It ignores a signal between its last line of log and its main loop.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(2)

    def reload(self):
        """Reads its files of rights again."""
        self._process.send_signal(signal.SIGHUP)

    def restart(self):
        self.stop()
        return self.start()

    def wait_for_log(self, text, count=1):
        """Waits until so many lines have the text."""
        with self._logged:
            found = self._logged.wait_for(lambda: self.count_log(text) >= count, 20)
        assert found, f"the broker has not logged {text!r} {count} times: {self.log[-5:]}"

    def count_log(self, text):
        return sum(text in line for line in [*self.log])

    def _read_log(self, process):
        for line in process.stderr:
            with self._logged:
                self.log.append(line.rstrip())
                self._logged.notify_all()


@contextlib.contextmanager
def running_broker(folder, *lines):
    broker = Mosquitto(folder, *lines)
    try:
        yield broker.start()
    finally:
        broker.stop()
