//! The wheel for pip: the program is a script of the distribution, which pip copies to `bin/`.

use std::io::{self, Cursor, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::archive::File;
use super::platform::Platform;
use super::{DESCRIPTION, Format, LICENSE, Product, README};

pub(super) const FORMAT: Format = Format {
    name: "wheel",
    file_name: |product| {
        let tag = tag(product.platform);
        format!("runwright-{}-{tag}.whl", product.version)
    },
    make,
};

/// Any Python 3 on a Linux system with that version of glibc or a later one.
fn tag(platform: Platform) -> String {
    let (major, minor) = platform.glibc;
    format!(
        "py3-none-manylinux_{major}_{minor}_{}",
        platform.machine.linux()
    )
}

fn make(product: &Product) -> io::Result<Vec<u8>> {
    let name = format!("runwright-{}", product.version);
    let info = format!("{name}.dist-info");
    let metadata = format!(
        "Metadata-Version: 2.4\n\
         Name: runwright\n\
         Version: {}\n\
         Summary: {DESCRIPTION}\n\
         License-Expression: Apache-2.0\n\
         License-File: LICENSE\n\
         Requires-Python: >=3\n\
         Description-Content-Type: text/markdown\n\
         \n\
         {README}",
        product.version
    );
    let wheel = format!(
        "Wheel-Version: 1.0\n\
         Generator: runwright-xtask\n\
         Root-Is-Purelib: false\n\
         Tag: {}\n",
        tag(product.platform)
    );
    let mut files = vec![
        File::program(format!("{name}.data/scripts/runwright"), &product.binary),
        File::text(format!("{info}/licenses/LICENSE"), LICENSE.as_bytes()),
        File::text(format!("{info}/METADATA"), metadata.as_bytes()),
        File::text(format!("{info}/WHEEL"), wheel.as_bytes()),
    ];
    let record = record(&files, &info);
    files.push(File::text(format!("{info}/RECORD"), record.as_bytes()));
    zip(&files)
}

/// The list of files with their digests; its own line has none.
fn record(files: &[File<'_>], info: &str) -> String {
    let mut record = String::new();
    for file in files {
        let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(file.bytes));
        let (path, size) = (&file.path, file.bytes.len());
        record.push_str(&format!("{path},sha256={digest},{size}\n"));
    }
    record.push_str(&format!("{info}/RECORD,,\n"));
    record
}

fn zip(files: &[File<'_>]) -> io::Result<Vec<u8>> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for file in files {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .last_modified_time(DateTime::default())
            .unix_permissions(file.kind.mode());
        zip.start_file(&file.path, options)?;
        zip.write_all(file.bytes)?;
    }
    Ok(zip.finish()?.into_inner())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read as _;

    use super::super::tests::{PROGRAM, stand_in};
    use super::*;

    fn read(wheel: Vec<u8>) -> BTreeMap<String, (u32, Vec<u8>)> {
        let mut zip = zip::ZipArchive::new(Cursor::new(wheel)).unwrap();
        let mut files = BTreeMap::new();
        for index in 0..zip.len() {
            let mut file = zip.by_index(index).unwrap();
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).unwrap();
            let mode = file.unix_mode().unwrap() & 0o777;
            files.insert(file.name().unwrap().into_owned(), (mode, bytes));
        }
        files
    }

    fn text(files: &BTreeMap<String, (u32, Vec<u8>)>, path: &str) -> String {
        String::from_utf8(files[path].1.clone()).unwrap()
    }

    #[test]
    fn the_program_is_a_script_of_the_wheel() {
        let product = stand_in(PROGRAM);
        let name = "runwright-1.2.3-py3-none-manylinux_2_34_x86_64.whl";
        assert_eq!((FORMAT.file_name)(&product), name);
        let files = read(make(&product).unwrap());
        let (mode, program) = &files["runwright-1.2.3.data/scripts/runwright"];
        assert_eq!((*mode, &program[..]), (0o755, PROGRAM.as_bytes()));
        let wheel = text(&files, "runwright-1.2.3.dist-info/WHEEL");
        assert!(wheel.contains("\nTag: py3-none-manylinux_2_34_x86_64\n"));
        let metadata = text(&files, "runwright-1.2.3.dist-info/METADATA");
        assert!(metadata.contains("\nName: runwright\nVersion: 1.2.3\n"));
        assert!(metadata.ends_with(README));
    }

    #[test]
    fn the_record_has_the_digest_of_each_file() {
        let files = read(make(&stand_in(PROGRAM)).unwrap());
        let record_path = "runwright-1.2.3.dist-info/RECORD";
        let record = text(&files, record_path);
        assert_eq!(record.lines().count(), files.len());
        for line in record.lines() {
            let [path, digest, size] = line.split(',').collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            if path == record_path {
                assert_eq!((digest, size), ("", ""));
                continue;
            }
            let bytes = &files[path].1;
            let expected = URL_SAFE_NO_PAD.encode(Sha256::digest(bytes));
            assert_eq!(digest, format!("sha256={expected}"), "{path}");
            assert_eq!(size, bytes.len().to_string(), "{path}");
        }
    }

    #[test]
    fn a_digest_is_url_safe_base64_without_padding() {
        let line = record(&[File::text("a", b"abc")], "i");
        let expected = "a,sha256=ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0,3\ni/RECORD,,\n";
        assert_eq!(line, expected);
    }
}
