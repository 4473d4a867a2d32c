//! The package for npm: the program is a command of the package, which npm links to `bin/`.

use std::io;

use serde_json::json;

use super::archive::{File, tar_gz};
use super::{DESCRIPTION, Format, LICENSE, Product, README};

pub(super) const FORMAT: Format = Format {
    name: "npm",
    file_name: |product| {
        let machine = product.platform.machine.node();
        format!("runwright-{}-linux-{machine}.tgz", product.version)
    },
    make,
};

fn make(product: &Product) -> io::Result<Vec<u8>> {
    // npm refuses to install where `os`, `cpu` or `libc` differ.
    let manifest = json!({
        "name": "runwright",
        "version": product.version,
        "description": DESCRIPTION,
        "license": "Apache-2.0",
        "bin": { "runwright": "bin/runwright" },
        "os": ["linux"],
        "cpu": [product.platform.machine.node()],
        "libc": ["glibc"],
    });
    let manifest = format!("{manifest:#}\n");
    tar_gz(&[
        File::text("package/package.json", manifest.as_bytes()),
        File::text("package/LICENSE", LICENSE.as_bytes()),
        File::text("package/README.md", README.as_bytes()),
        File::program("package/bin/runwright", &product.binary),
    ])
}

#[cfg(test)]
mod tests {
    use super::super::archive::tests::read;
    use super::super::tests::{PROGRAM, stand_in};
    use super::*;

    #[test]
    fn the_manifest_names_the_command_and_the_system() {
        let product = stand_in(PROGRAM);
        assert_eq!(
            (FORMAT.file_name)(&product),
            "runwright-1.2.3-linux-x64.tgz"
        );
        let entries = read(&make(&product).unwrap());
        let manifest: serde_json::Value =
            serde_json::from_str(&entries["package/package.json"].1).unwrap();
        assert_eq!(manifest["version"], "1.2.3");
        assert_eq!(manifest["cpu"], json!(["x64"]));
        let command = manifest["bin"]["runwright"].as_str().unwrap();
        let program = &entries[&format!("package/{command}")];
        assert_eq!(program, &(0o755, PROGRAM.to_owned()));
    }
}
