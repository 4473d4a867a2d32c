//! The systems that a binary runs on, read from the output of `readelf`.

/// The requirements of a binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Platform {
    pub machine: Machine,
    /// The oldest version of the C library.
    pub glibc: (u32, u32),
}

/// A processor, which each format names in its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Machine {
    X86_64,
    Aarch64,
}

impl Machine {
    /// The name in wheels, and of the kernel.
    pub(super) fn linux(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    pub(super) fn node(self) -> &'static str {
        match self {
            Self::X86_64 => "x64",
            Self::Aarch64 => "arm64",
        }
    }

    pub(super) fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }
}

/// Libraries that each Linux system with glibc has, as beginnings of names. The manylinux standard
/// and the dependencies of the Debian package cover them.
const LIBRARIES: [&str; 7] = [
    "ld-linux",
    "libc.so.",
    "libdl.so.",
    "libgcc_s.so.",
    "libm.so.",
    "libpthread.so.",
    "librt.so.",
];

impl Platform {
    /// Reads the output of `readelf --file-header --dynamic --version-info`.
    pub(super) fn parse(readelf: &str) -> Result<Self, String> {
        let machine = readelf
            .lines()
            .find_map(|line| line.trim_start().strip_prefix("Machine:"))
            .map_or("", str::trim);
        let machine = match machine {
            text if text.contains("X86-64") => Machine::X86_64,
            text if text.contains("AArch64") => Machine::Aarch64,
            text => {
                return Err(format!(
                    "packages are made for x86-64 and AArch64, and the program is for `{text}`; \
                     build on such a machine"
                ));
            }
        };
        let needed = readelf.lines().filter_map(|line| {
            let (_, name) = line.split_once("(NEEDED)")?;
            name.split_once('[')?.1.split_once(']')
        });
        for (library, _) in needed {
            if !LIBRARIES.iter().any(|known| library.starts_with(known)) {
                return Err(format!(
                    "the program needs {library}, which other machines may not have; link that \
                     library statically"
                ));
            }
        }
        let glibc = readelf.lines().filter_map(glibc_version).max().ok_or(
            "the program does not use glibc; packages are made for a `linux-gnu` target, such as \
             x86_64-unknown-linux-gnu",
        )?;
        Ok(Self { machine, glibc })
    }
}

/// The version in `Name: GLIBC_2.34  Flags: none`.
fn glibc_version(line: &str) -> Option<(u32, u32)> {
    let (_, version) = line.split_once("Name: GLIBC_")?;
    let version = version.split_whitespace().next()?;
    let mut numbers = version.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const READELF: &str = "ELF Header:
  Machine:                           Advanced Micro Devices X86-64
Dynamic section at offset 0x55d8088 contains 30 entries:
 0x0000000000000001 (NEEDED)             Shared library: [libgcc_s.so.1]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
Version needs section '.gnu.version_r' contains 2 entries:
  0x0010:   Name: GCC_4.2.0  Flags: none  Version: 5
  0x0080:   Name: GLIBC_2.2.5  Flags: none  Version: 3
  0x01d0:   Name: GLIBC_2.34  Flags: none  Version: 2
  0x01e0:   Name: GLIBC_2.9  Flags: none  Version: 8
";

    #[test]
    fn the_newest_symbol_decides_the_glibc_version() {
        assert_eq!(
            Platform::parse(READELF),
            Ok(Platform {
                machine: Machine::X86_64,
                glibc: (2, 34)
            })
        );
    }

    #[test]
    fn a_machine_without_packages_is_named() {
        let error = Platform::parse(&READELF.replace("X86-64", "Z80")).unwrap_err();
        assert!(error.contains("Z80"), "{error}");
    }

    #[test]
    fn an_uncommon_library_is_named() {
        let error = Platform::parse(&READELF.replace("libgcc_s", "libssl")).unwrap_err();
        assert!(error.contains("libssl.so.1"), "{error}");
    }

    #[test]
    fn a_static_program_is_rejected() {
        let error = Platform::parse(&READELF.replace("GLIBC_", "MUSL_")).unwrap_err();
        assert!(error.contains("does not use glibc"), "{error}");
    }
}
