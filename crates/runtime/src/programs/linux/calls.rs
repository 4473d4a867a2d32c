//! seccomp: the system calls that Landlock does not mediate, and the observation of connections.

use std::collections::BTreeMap;
use std::io;

use libc::c_long;
use seccomp_notify::Listener;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

use super::super::confinement::{Confinement, Files, Network};

/// Calls that an isolated program does not need in a confined process: other processes' memory and
/// state, kernel settings, named shared memory, folder watches, and ways around this filter. Modes,
/// owners and attributes are included because Landlock does not mediate them, and with them the
/// engine's own files could be closed or opened.
const NEVER: &[c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_finit_module,
    libc::SYS_fremovexattr,
    libc::SYS_fsconfig,
    libc::SYS_fsetxattr,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_inotify_add_watch,
    libc::SYS_kcmp,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lremovexattr,
    libc::SYS_lsetxattr,
    libc::SYS_memfd_create,
    libc::SYS_migrate_pages,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_move_pages,
    libc::SYS_mq_open,
    libc::SYS_msgget,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_removexattr,
    libc::SYS_request_key,
    libc::SYS_semget,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_setxattr,
    libc::SYS_shmget,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

/// The older forms of some processors.
#[cfg(target_arch = "x86_64")]
const NEVER_OLD: &[c_long] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_ioperm,
    libc::SYS_iopl,
    libc::SYS_kexec_file_load,
    libc::SYS_lchown,
];
#[cfg(not(target_arch = "x86_64"))]
const NEVER_OLD: &[c_long] = &[];

/// Newer than the constants: `setxattrat`, `removexattrat`, `open_tree_attr`, `file_setattr`.
const NEVER_NEW: [c_long; 4] = [463, 466, 467, 469];

/// Interfaces that create and use sockets without the calls filtered here.
const RINGS: [c_long; 3] = [
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// Calls whose argument at this index names a process; 0 is the caller itself.
const OF_ITSELF: [(c_long, u8); 6] = [
    (libc::SYS_prlimit64, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setscheduler, 0),
];

/// Flags of `clone` that make namespaces.
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

/// The bits of a socket's type without its flags.
const TYPE: u64 = 0xf;

/// The conditions of a rule, all of which must hold; empty matches every call.
type Conditions = Vec<SeccompCondition>;

/// Filters the system calls of the calling thread and everything it starts.
pub(super) fn filter(confinement: &Confinement) -> io::Result<()> {
    let mut denied = Denied::default();
    denied.rings();
    match confinement.network {
        Network::Open => {}
        Network::Denied => {
            denied.always(libc::SYS_socket);
            denied.addressed_pairs()?;
        }
        Network::OnlyPort(_) => denied.all_but_tcp()?,
    }
    if confinement.files != Files::All {
        for call in NEVER.iter().chain(NEVER_OLD).chain(&NEVER_NEW) {
            denied.always(*call);
        }
        for (call, place) in OF_ITSELF {
            denied.when(call, vec![is(place, SeccompCmpOp::Ne, 0)?])?;
        }
        denied.when(
            libc::SYS_setpriority,
            vec![is(0, SeccompCmpOp::Ne, libc::PRIO_PROCESS as u64)?],
        )?;
        denied.always(libc::SYS_ioprio_set);
        for flag in NAMESPACES {
            denied.when(libc::SYS_clone, vec![has(0, flag as u64)?])?;
        }
    }
    apply(denied.rules, libc::EPERM)?;
    if confinement.files != Files::All {
        // Its flags are in memory, which a filter cannot read; after ENOSYS the C library uses
        // `clone`.
        let mut unknown = Denied::default();
        unknown.always(libc::SYS_clone3);
        apply(unknown.rules, libc::ENOSYS)?;
    }
    Ok(())
}

/// Reports the calls of the calling thread, and of everything it starts, that bind or connect a
/// socket, send to an address, or make a socket that [`filter`] denies with [`Network::OnlyPort`].
/// The listener must not let the kernel make such a socket.
pub(super) fn observe() -> io::Result<Listener> {
    let mut denied = Denied::default();
    denied.rings();
    apply(denied.rules, libc::EPERM)?;
    let mut observed = Denied::default();
    observed.all_but_tcp()?;
    let has_address = SeccompCondition::new(4, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0);
    let has_address = has_address.map_err(io::Error::other)?;
    observed.when(libc::SYS_sendto, vec![has_address])?;
    // The address of a message is in memory, which a filter cannot read.
    let always = [
        libc::SYS_bind,
        libc::SYS_connect,
        libc::SYS_sendmsg,
        libc::SYS_sendmmsg,
    ];
    for call in always {
        observed.always(call);
    }
    seccomp_notify::install(&program(observed.rules, SeccompAction::Trace(0))?)
}

fn apply(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: i32) -> io::Result<()> {
    let program = program(rules, SeccompAction::Errno(errno as u32))?;
    apply_filter(&program).map_err(io::Error::other)
}

fn program(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    on_match: SeccompAction,
) -> io::Result<BpfProgram> {
    let arch = std::env::consts::ARCH
        .try_into()
        .map_err(io::Error::other)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, on_match, arch);
    filter.and_then(TryInto::try_into).map_err(io::Error::other)
}

fn is(place: u8, how: SeccompCmpOp, value: u64) -> io::Result<SeccompCondition> {
    let condition = SeccompCondition::new(place, SeccompCmpArgLen::Dword, how, value);
    condition.map_err(io::Error::other)
}

fn has(place: u8, flag: u64) -> io::Result<SeccompCondition> {
    is(place, SeccompCmpOp::MaskedEq(flag), flag)
}

/// System calls that are denied, or reported.
#[derive(Default)]
struct Denied {
    rules: BTreeMap<i64, Vec<SeccompRule>>,
}

impl Denied {
    fn rings(&mut self) {
        for call in RINGS {
            self.always(call);
        }
    }

    fn always(&mut self, call: c_long) {
        for number in numbers(call) {
            self.rules.insert(number, Vec::new());
        }
    }

    fn when(&mut self, call: c_long, conditions: Conditions) -> io::Result<()> {
        for number in numbers(call) {
            let rule = SeccompRule::new(conditions.clone()).map_err(io::Error::other)?;
            self.rules.entry(number).or_default().push(rule);
        }
        Ok(())
    }

    /// Socket pairs that can send to others than each other: an end of a pair of datagram sockets
    /// takes the address of any Unix socket.
    fn addressed_pairs(&mut self) -> io::Result<()> {
        use SeccompCmpOp::{MaskedEq, Ne};
        let (unix, datagram) = (libc::AF_UNIX as u64, libc::SOCK_DGRAM as u64);
        self.when(libc::SYS_socketpair, vec![is(0, Ne, unix)?])?;
        self.when(libc::SYS_socketpair, vec![is(1, MaskedEq(TYPE), datagram)?])
    }

    /// Allows only TCP sockets, whose connections Landlock mediates, and socket pairs that reach
    /// nothing else.
    fn all_but_tcp(&mut self) -> io::Result<()> {
        use SeccompCmpOp::{MaskedEq, Ne};
        self.addressed_pairs()?;
        let stream = libc::SOCK_STREAM as u64;
        let (four, six) = (libc::AF_INET as u64, libc::AF_INET6 as u64);
        self.when(libc::SYS_socket, vec![is(0, Ne, four)?, is(0, Ne, six)?])?;
        for other in (0..=TYPE).filter(|kind| *kind != stream) {
            self.when(libc::SYS_socket, vec![is(1, MaskedEq(TYPE), other)?])?;
        }
        let tcp = libc::IPPROTO_TCP as u64;
        self.when(libc::SYS_socket, vec![is(2, Ne, 0)?, is(2, Ne, tcp)?])?;
        // Data in the first packet is sent without `connect`, which is the call that Landlock
        // mediates.
        let fast = libc::MSG_FASTOPEN as u64;
        for (call, place) in [
            (libc::SYS_sendto, 3),
            (libc::SYS_sendmsg, 2),
            (libc::SYS_sendmmsg, 3),
        ] {
            self.when(call, vec![has(place, fast)?])?;
        }
        Ok(())
    }
}

/// The numbers of a call: on x86-64 there is a second one for the x32 interface.
fn numbers(call: c_long) -> impl Iterator<Item = i64> {
    const X32: i64 = 0x4000_0000;
    let short = cfg!(target_arch = "x86_64").then_some(call | X32);
    std::iter::once(call).chain(short)
}
