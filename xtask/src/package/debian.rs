//! The Debian package: an `ar` archive of a version, the control files and the files to install.

use std::io;

use super::archive::{File, tar_gz};
use super::{DESCRIPTION, Format, LICENSE, Product, README, UNIT};

pub(super) const FORMAT: Format = Format {
    name: "deb",
    file_name: |product| {
        let machine = product.platform.machine.debian();
        format!("runwright_{}_{machine}.deb", product.version)
    },
    make,
};

/// Options of the server. dpkg keeps the changes of an administrator.
const DEFAULTS: &str = include_str!("files/runwright.default");
const DEFAULTS_PATH: &str = "etc/default/runwright";

/// Scripts that dpkg runs, by their names.
const SCRIPTS: [(&str, &str); 3] = [
    ("postinst", include_str!("files/postinst")),
    ("prerm", include_str!("files/prerm")),
    ("postrm", include_str!("files/postrm")),
];

fn make(product: &Product) -> io::Result<Vec<u8>> {
    let copyright = copyright();
    let installed = installed(product, &copyright);
    let control = control(product, &installed);
    let conffiles = format!("/{DEFAULTS_PATH}\n");
    let mut control = vec![
        File::text("control", control.as_bytes()),
        File::text("conffiles", conffiles.as_bytes()),
    ];
    control.extend(SCRIPTS.map(|(name, text)| File::program(name, text.as_bytes())));

    let mut deb = ar::Builder::new(Vec::new());
    // dpkg requires this order.
    let members: [(&str, &[u8]); 3] = [
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", &tar_gz(&control)?),
        ("data.tar.gz", &tar_gz(&installed)?),
    ];
    for (name, bytes) in members {
        let mut header = ar::Header::new(name.as_bytes().to_vec(), bytes.len() as u64);
        header.set_mode(0o100_644);
        deb.append(&header, bytes)?;
    }
    deb.into_inner()
}

fn installed<'a>(product: &'a Product, copyright: &'a str) -> Vec<File<'a>> {
    let documentation = "usr/share/doc/runwright";
    let mut files = vec![
        File::text(DEFAULTS_PATH, DEFAULTS.as_bytes()),
        File::program("usr/bin/runwright", &product.binary),
        File::text("usr/lib/systemd/system/runwright.service", UNIT.as_bytes()),
        File::text(format!("{documentation}/README.md"), README.as_bytes()),
        File::text(format!("{documentation}/copyright"), copyright.as_bytes()),
    ];
    for completion in &product.completions {
        let shell = completion.shell;
        let path = format!("usr/{}", shell.debian_path.unwrap_or(shell.path));
        files.push(File::text(path, &completion.script));
    }
    files
}

fn control(product: &Product, installed: &[File<'_>]) -> String {
    let size: usize = installed
        .iter()
        .map(|file| file.bytes.len().div_ceil(1024))
        .sum();
    let (major, minor) = product.platform.glibc;
    format!(
        "Package: runwright\n\
         Version: {}\n\
         Architecture: {}\n\
         Maintainer: The Runwright contributors\n\
         Installed-Size: {size}\n\
         Depends: adduser, libc6 (>= {major}.{minor}), libgcc-s1\n\
         Recommends: ca-certificates\n\
         Section: utils\n\
         Priority: optional\n\
         Description: {DESCRIPTION}\n \
         Each run is an append-only log of events. A run that was killed continues where it\n \
         was; completed steps do not run a second time. The package has the program and a\n \
         systemd unit for its server.\n",
        product.version,
        product.platform.machine.debian(),
    )
}

/// The holder of the copyright and the licence.
fn copyright() -> String {
    format!("Copyright: The Runwright contributors\n\n{LICENSE}")
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::super::archive::tests::read;
    use super::super::tests::{PROGRAM, stand_in};
    use super::*;

    fn members() -> Vec<(String, Vec<u8>)> {
        let deb = make(&stand_in(PROGRAM)).unwrap();
        let mut archive = ar::Archive::new(&deb[..]);
        let mut members = Vec::new();
        while let Some(entry) = archive.next_entry() {
            let mut entry = entry.unwrap();
            let name = String::from_utf8(entry.header().identifier().to_vec()).unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            members.push((name, bytes));
        }
        members
    }

    #[test]
    fn the_members_are_those_that_dpkg_reads() {
        let name = (FORMAT.file_name)(&stand_in(PROGRAM));
        assert_eq!(name, "runwright_1.2.3_amd64.deb");
        let members = members();
        let names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["debian-binary", "control.tar.gz", "data.tar.gz"]);
        assert_eq!(members[0].1, b"2.0\n");
        let data = read(&members[2].1);
        assert_eq!(data["usr/bin/runwright"], (0o755, PROGRAM.to_owned()));
        assert_eq!(data["etc/default/runwright"], (0o644, DEFAULTS.to_owned()));
        assert!(data.contains_key("usr/share/zsh/vendor-completions/_runwright"));
        assert!(
            data["usr/share/doc/runwright/copyright"]
                .1
                .ends_with(LICENSE)
        );
    }

    #[test]
    fn the_control_file_names_version_and_needs() {
        let control = read(&members()[1].1);
        let (_, text) = &control["control"];
        for line in [
            "Version: 1.2.3",
            "Architecture: amd64",
            "Depends: adduser, libc6 (>= 2.34), libgcc-s1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert_eq!(control["conffiles"].1, "/etc/default/runwright\n");
        for (name, _) in SCRIPTS {
            assert_eq!(control[name].0, 0o755, "{name}");
        }
    }

    #[test]
    fn unit_and_scripts_agree_on_user_and_folder() {
        let setting = |name: &str| {
            let line = UNIT.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("no {name} in the unit"))
        };
        let folder = format!("/var/lib/{}", setting("StateDirectory="));
        assert!(setting("ExecStart=").contains(&format!("--data {folder}/")));
        let user = setting("User=");
        let postinst = SCRIPTS[0].1;
        assert!(postinst.contains(&format!("--home {folder} --no-create-home {user}\n")));
        assert!(DEFAULTS.contains("RUNWRIGHT_OPTIONS"));
        assert!(setting("ExecStart=").ends_with("$RUNWRIGHT_OPTIONS"));
    }

    #[test]
    fn the_unit_keeps_the_needs_of_confinement_and_programs() {
        // Confinement reads /proc/sys; interpreters with a compiler write executable memory;
        // programs with their own sandbox make namespaces.
        for setting in [
            "ProcSubset=",
            "MemoryDenyWriteExecute=",
            "RestrictNamespaces=",
        ] {
            let is_set = UNIT.lines().any(|line| line.starts_with(setting));
            assert!(!is_set, "{setting}");
        }
    }
}
