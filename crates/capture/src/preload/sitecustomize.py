"""Loaded by Python before the program of a capture or a replay, by PYTHONPATH.

Keeps what the clock and chance gave to the program, and gives it the same again in a replay. Leads
connections to other addresses to the recording proxy. What it cannot change stays as it is.
"""
import os
import sys

FOLDER = os.environ.get("RUNWRIGHT_PRELOAD", "")
PROXY = os.environ.get("RUNWRIGHT_CAPTURE_URL", "").split("/")
# Bytes that a process may write.
MOST = 512 << 10


class Readings(object):
    """What the clock and chance gave to one process: a file of lines.

    `site NUMBER TEXT` names a place that asked, `NUMBER VALUE` is what it was given.
    """

    def __init__(self, word):
        self.word, self.places, self.shifts = word, {}, {}
        self.left, self.path, self.file, self.begun = MOST, None, None, {}
        for number in range(1000):
            name = "%s.%d" % (word, number)
            path = os.path.join(FOLDER, "made", name)
            try:
                self.file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600)
            except FileExistsError:
                continue
            except OSError:
                # Nothing is recorded where the folder cannot be written.
                break
            self.path, self.about = path, os.fstat(self.file)
            self.begun = recorded(os.path.join(FOLDER, "recorded", name))
            break

    def write(self, line):
        data = (line + "\n").encode("utf-8", "replace")
        if self.path is None or self.left < len(data):
            return
        self.left -= len(data)
        try:
            about = os.fstat(self.file)
            is_it = (about.st_dev, about.st_ino) == (self.about.st_dev, self.about.st_ino)
        except OSError:
            is_it = False
        if not is_it:
            # The program closed what it had not opened.
            self.file = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        os.write(self.file, data)

    def next(self, site, real):
        """What was recorded for a site, else what is real. A recorded number moves those after it."""
        with LOCK:
            place = self.places.get(site)
            if place is None:
                place = self.places[site] = (len(self.places), iter(self.begun.get(site, ())))
                self.write("site %d %s" % (place[0], site))
            kind, value, is_number = site.split(" ", 1)[0], real(), False
            given = next(place[1], None)
            is_number = isinstance(value, int)
            if given is not None and is_number and not given.lstrip("-").isdigit():
                # Redaction changed it, so it counts as not recorded.
                given = None
            if given is not None:
                if is_number:
                    given = int(given)
                    self.shifts[kind] = given - value
                value = given
            elif is_number:
                value += self.shifts.get(kind, 0)
            self.write("%d %s" % (place[0], value))
            return value


def recorded(path):
    """The values of each site in a file of lines."""
    names, values = {}, {}
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        return values
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "site":
            number, _, name = rest.partition(" ")
            names[number] = name
        elif word in names:
            values.setdefault(names[word], []).append(rest)
    return values


def place(frame):
    code = frame.f_code
    name = os.path.basename(code.co_filename)
    text = "%s:%s" % (name, getattr(code, "co_qualname", code.co_name))
    return text.replace("\n", " ")


def is_library(frame):
    name = frame.f_code.co_filename
    return name.startswith(LIBRARY) or "-packages" in name or name.startswith("<frozen")


class Asked(object):
    """Stands for a function of the clock or of chance. No method of a class that it is put into."""

    def __init__(self, module, name, answer):
        self.__module__, self.__name__, self.__qualname__ = module.__name__, name, name
        self.__doc__, self.__wrapped__ = getattr(module, name).__doc__, getattr(module, name)
        self.answer = answer
        setattr(module, name, self)

    def __call__(self, *args, **named):
        return self.answer(sys._getframe(1), *args, **named)

    def __reduce__(self):
        return self.__name__


def wall(frame):
    return READINGS.next("clock " + place(frame), time_ns)


def patch_time(time):
    def elapsed(name, real, unit):
        def answer(frame):
            if is_library(frame):
                return real() if unit == 1 else real() / unit
            return READINGS.next("%s %s" % (name, place(frame)), real) / unit

        def whole(frame):
            return real() if is_library(frame) else READINGS.next("%s %s" % (name, place(frame)), real)

        return answer if unit != 1 else whole

    for name in ("perf_counter", "monotonic", "process_time"):
        real = getattr(time, name + "_ns")
        Asked(time, name, elapsed(name, real, 1e9))
        Asked(time, name + "_ns", elapsed(name, real, 1))
    Asked(time, "time", lambda frame: wall(frame) / 1e9)
    Asked(time, "time_ns", wall)
    for name in ("localtime", "gmtime", "ctime"):
        def of_now(frame, seconds=None, real=getattr(time, name)):
            return real(wall(frame) / 1e9 if seconds is None else seconds)
        Asked(time, name, of_now)
    broken_down = time.localtime.__wrapped__

    def shown(real):
        def answer(frame, *args):
            least = 1 if real.__name__ == "strftime" else 0
            now = () if len(args) > least else (broken_down(wall(frame) / 1e9),)
            return real(*(args + now))
        return answer

    for name in ("strftime", "asctime"):
        Asked(time, name, shown(getattr(time, name)))


def patch_datetime(module):
    import gc

    def now(cls, tz=None):
        micros = wall(sys._getframe(1)) // 1000
        found = cls.fromtimestamp(micros // 1000000, tz)
        return found.replace(microsecond=micros % 1000000)

    def utcnow(cls):
        micros = wall(sys._getframe(1)) // 1000
        found = cls.fromtimestamp(micros // 1000000, module.timezone.utc)
        return found.replace(microsecond=micros % 1000000, tzinfo=None)

    # The type is one of C, which takes no attributes: its own table does.
    members = gc.get_referents(module.datetime.__dict__)[0]
    members["now"], members["utcnow"] = classmethod(now), classmethod(utcnow)
    if module.datetime.now.__func__ is not now:
        READINGS.write("problem datetime.now cannot be recorded by this Python")


def patch_uuid(module):
    for name in ("uuid1", "uuid4"):
        def answer(frame, *args, real=getattr(module, name), **named):
            text = READINGS.next("uuid " + place(frame), lambda: real(*args, **named).hex)
            return module.UUID(hex=text)
        Asked(module, name, answer)


def seed(module):
    # It has this name of its own.
    module._urandom = os.urandom
    module.seed(READINGS.next("seed random", lambda: int.from_bytes(os.urandom(16), "big")))


def patch_urandom():
    """Random bytes may be a key and are not kept; who drew them is told."""
    told = set()

    def answer(frame, size):
        while frame is not None and os.path.basename(frame.f_code.co_filename) in ("secrets.py", "random.py"):
            frame = frame.f_back
        is_own = frame is None or is_library(frame) or frame.f_code.co_filename == __file__
        if not is_own and place(frame) not in told:
            told.add(place(frame))
            READINGS.write("secret %s" % place(frame))
        return real(size)

    real = os.urandom
    Asked(os, "urandom", answer)


def patch_socket(module):
    real = module.socket.connect
    proxy = PROXY[2].rpartition(":")
    port = int(proxy[2])

    def connect(self, address):
        """Connects to the proxy and tells it first which address was meant."""
        is_internet = self.family in (module.AF_INET, module.AF_INET6) and isinstance(address, tuple)
        is_stream = self.type & 0xF == module.SOCK_STREAM
        if not (is_internet and is_stream) or address[1] == port:
            return real(self, address)
        host = "[%s]" % address[0] if ":" in address[0] else address[0]
        six = self.family == module.AF_INET6
        waits = self.gettimeout()
        self.setblocking(True)
        try:
            real(self, ("::ffff:" + proxy[0] if six else proxy[0], port))
            self.sendall(("\x01%s %s:%d\n" % ("/".join(PROXY[3:]), host, address[1])).encode())
        finally:
            self.settimeout(waits)

    if is_redirected():
        module.socket.connect = connect


def is_redirected():
    return os.path.exists(os.path.join(FOLDER, "redirect"))


def own_variables():
    """The variables of the recorder, for processes to which the program does not give them."""
    names = ["RUNWRIGHT_PRELOAD", "RUNWRIGHT_CAPTURE_URL", "PYTHONPATH", "NODE_OPTIONS", "PYTHONHASHSEED"]
    names += ["%s_PROXY" % word for word in ("HTTP", "HTTPS", "ALL")]
    names += [name.lower() for name in names if name.endswith("_PROXY")]
    return dict((name, os.environ[name]) for name in names if name in os.environ)


def with_own(given):
    """An environment with the recorder's variables."""
    if given is None:
        given = os.environ
    both = dict((os.fsdecode(name), value) for name, value in given.items())
    if "RUNWRIGHT_PRELOAD" in both:
        return given
    for name, value in VARIABLES.items():
        both.setdefault(name, value)
    python = os.path.join(FOLDER, "python")
    if python not in os.fsdecode(both.get("PYTHONPATH", "")):
        both["PYTHONPATH"] = python + os.pathsep + os.fsdecode(both["PYTHONPATH"])
    return both


def patch_subprocess(module):
    real = module.Popen.__init__

    def begin(self, *args, **named):
        # `env` is the eleventh parameter.
        if len(args) > 10:
            args = args[:10] + (with_own(args[10]),) + args[11:]
        else:
            named["env"] = with_own(named.get("env"))
        return real(self, *args, **named)

    module.Popen.__init__ = begin


def patch_exec():
    def with_environment(name, place):
        real = getattr(os, name)

        def answer(frame, *args, **named):
            if len(args) > place:
                args = args[:place] + (with_own(args[place]),) + args[place + 1:]
            elif "env" in named:
                named["env"] = with_own(named["env"])
            return real(*args, **named)

        Asked(os, name, answer)

    for name in ("execve", "posix_spawn", "posix_spawnp"):
        if hasattr(os, name):
            with_environment(name, 2)


def attempt(patch, module):
    try:
        patch(module)
    except Exception as error:
        READINGS.write("problem %s: %s" % (module.__name__, error))


class Finder(object):
    """Changes modules when they are imported."""

    patches = {
        "datetime": patch_datetime, "random": seed, "socket": patch_socket, "subprocess": patch_subprocess,
        "uuid": patch_uuid,
    }

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        patch = cls.patches.pop(name, None)
        spec = PathFinder.find_spec(name, path) if patch else None
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            attempt(patch, module)

        spec.loader.exec_module = exec_module
        return spec


def begin_again():
    """In a process that was forked off."""
    global LOCK, READINGS
    LOCK = RLock()
    READINGS = Readings(READINGS.word + "f")
    if "random" in sys.modules:
        attempt(seed, sys.modules["random"])


def chain(here):
    """Runs the file of this name that the program would have had."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
    spec = PathFinder.find_spec("sitecustomize")
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec
        module = sys.modules["sitecustomize"] = module_from_spec(spec)
        spec.loader.exec_module(module)


if sys.version_info >= (3, 7):
    from importlib.machinery import PathFinder
    from _thread import RLock
    import time
    import zlib

    LOCK = RLock()
    LIBRARY = os.path.dirname(os.__file__)
    time_ns = time.time_ns
    if os.path.isdir(FOLDER) and not hasattr(sys, "_runwright_preload"):
        # One capture within another has this file twice.
        sys._runwright_preload = True
        typed = getattr(sys, "orig_argv", [])[1:]
        typed = "\0".join(os.path.basename(part) for part in typed)
        READINGS = Readings("python-%08x" % zlib.crc32(typed.encode("utf-8", "replace")))
        os.register_at_fork(after_in_child=begin_again)
        attempt(patch_time, time)
        attempt(lambda module: patch_urandom(), os)
        if is_redirected():
            VARIABLES = own_variables()
            attempt(lambda module: patch_exec(), os)
        else:
            del Finder.patches["subprocess"]
        for name in sorted(Finder.patches):
            if name in sys.modules:
                attempt(Finder.patches.pop(name), sys.modules[name])
        sys.meta_path.insert(0, Finder)
    chain(os.path.dirname(os.path.abspath(__file__)))
