//! The tarball: a prefix to unpack anywhere, such as `/usr/local`.

use std::io;

use super::archive::{File, tar_gz};
use super::{Format, LICENSE, Product, README, UNIT};

pub(super) const FORMAT: Format = Format {
    name: "tarball",
    file_name: |product| format!("{}.tar.gz", folder(product)),
    make,
};

/// The only folder at the top of the archive.
pub(super) fn folder(product: &Product) -> String {
    let machine = product.platform.machine.linux();
    format!("runwright-{}-{machine}-linux", product.version)
}

fn make(product: &Product) -> io::Result<Vec<u8>> {
    let top = folder(product);
    let unit = UNIT.replace("/usr/bin/", "/usr/local/bin/");
    let mut files = vec![
        File::text(format!("{top}/LICENSE"), LICENSE.as_bytes()),
        File::text(format!("{top}/README.md"), README.as_bytes()),
        File::program(format!("{top}/bin/runwright"), &product.binary),
        File::text(
            format!("{top}/lib/systemd/system/runwright.service"),
            unit.as_bytes(),
        ),
    ];
    for completion in &product.completions {
        let path = format!("{top}/{}", completion.shell.path);
        files.push(File::text(path, &completion.script));
    }
    tar_gz(&files)
}

#[cfg(test)]
mod tests {
    use super::super::archive::tests::read;
    use super::super::tests::{PROGRAM, stand_in};
    use super::*;

    #[test]
    fn the_tarball_is_a_prefix_with_program_and_unit() {
        let product = stand_in(PROGRAM);
        assert_eq!(
            (FORMAT.file_name)(&product),
            "runwright-1.2.3-x86_64-linux.tar.gz"
        );
        let entries = read(&make(&product).unwrap());
        let entry = |path: &str| &entries[&format!("runwright-1.2.3-x86_64-linux/{path}")];
        assert_eq!(entry("bin/runwright"), &(0o755, PROGRAM.to_owned()));
        assert_eq!(entry("LICENSE").1, LICENSE);
        assert_eq!(entry("README.md").1, README);
        let (mode, unit) = entry("lib/systemd/system/runwright.service");
        assert_eq!(*mode, 0o644);
        assert!(unit.contains("\nExecStart=/usr/local/bin/runwright serve "));
        assert_eq!(
            entry("share/bash-completion/completions/runwright").1,
            "# bash\n"
        );
        assert_eq!(entry("share/zsh/site-functions/_runwright").1, "# zsh\n");
    }
}
