//! Reading URLs of databases. These tests see private parts of `src/address.rs`.

use super::*;

fn refusal(url: &str) -> String {
    match Address::parse(url) {
        Ok(address) => panic!("{address} was accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn passwords_are_not_printed() {
    let address = Address::parse("postgres://me:hidden@a,b:6000/runs?sslmode=require").unwrap();
    assert_eq!(
        format!("{address} {address:?}"),
        "postgres://a,b/runs postgres://a,b/runs"
    );
    assert_eq!(address.config.get_password(), Some(&b"hidden"[..]));
    for url in [
        "postgres://me:hidden@a/runs?sslmode=on",
        "postgres://me:hidden@a:port/runs",
        "postgres://me:hidden@a/runs?color=red",
        "postgres://me:w@hidden@a/runs",
        "postgres://me:12?hidden@a/runs",
        "postgres://me@a/runs?password=one&hidden",
        "mysql://me:hidden@a/runs",
    ] {
        assert!(!refusal(url).contains("hidden"), "{}", refusal(url));
    }
}

#[test]
fn tls_modes_are_those_of_libpq() {
    let mode = |query: &str| {
        let address = Address::parse(&format!("postgres://a/runs?{query}")).unwrap();
        (address.config.get_ssl_mode(), address.check)
    };
    assert_eq!(mode("sslmode=disable"), (SslMode::Disable, Check::Nothing));
    assert_eq!(mode(""), (SslMode::Prefer, Check::Nothing));
    assert_eq!(mode("sslmode=require"), (SslMode::Require, Check::Nothing));
    let with_root = mode("sslmode=require&sslrootcert=/ca.pem");
    assert_eq!(with_root, (SslMode::Require, Check::Authority));
    assert_eq!(
        mode("sslmode=verify-ca&sslrootcert=/ca.pem"),
        (SslMode::Require, Check::Authority)
    );
    assert!(refusal("postgres://a/runs?sslmode=verify-ca").contains("sslrootcert"));
    assert_eq!(mode("sslrootcert=system"), (SslMode::Require, Check::Host));
    assert!(
        refusal("postgres://a/runs?sslrootcert=system&sslmode=require").contains("verify-full")
    );
    assert_eq!(mode("sslmode=verify-full"), (SslMode::Require, Check::Host));
    assert!(refusal("postgres://a/runs?sslmode=on").contains("verify-full"));
    assert!(refusal("postgres://a/runs?sslcert=/c.pem").contains("sslkey"));
}

#[test]
fn several_hosts_need_one_that_takes_writes() {
    let address = Address::parse("postgres://me:p%40@a:1,b:2/runs").unwrap();
    assert_eq!(address.config.get_ports(), [1, 2]);
    let ports = address.hosts.iter().map(|host| host.get_ports()[0]);
    assert_eq!(ports.collect::<Vec<_>>(), [1, 2]);
    let of_host = address.hosts[1].get_connect_timeout();
    assert_eq!(of_host, Some(&Duration::from_secs(5)));
    let attributes = address.config.get_target_session_attrs();
    assert_eq!(attributes, TargetSessionAttrs::ReadWrite);
}

#[test]
fn values_are_read_as_libpq_reads_them() {
    let url = "postgres://me@a/runs?password=a+b%2F&tcp_user_timeout=1500&keepalives_count=7";
    let config = Address::parse(url).unwrap().config;
    assert_eq!(config.get_password(), Some(&b"a+b/"[..]));
    let timeout = config.get_tcp_user_timeout();
    assert_eq!(timeout, Some(&Duration::from_millis(1_500)));
    assert_eq!(config.get_keepalives_retries(), Some(7));
    assert!(refusal("postgres://a/runs?keepalives_count=some").contains("whole number"));
}

#[test]
fn a_password_file_is_read_by_line() {
    let wanted = ["db.example", "5432", "runs", "me"];
    let line = |text| from_line(text, &wanted);
    assert_eq!(
        line("db.example:5432:runs:me:a:b\\:c\\\\"),
        Some("a:b:c\\".into())
    );
    assert_eq!(line("*:*:*:me:word"), Some("word".into()));
    assert_eq!(line("*:*:*:other:word"), None);
    assert_eq!(line("#*:*:*:*:word"), None);
    assert_eq!(line("*:*:*"), None);
}
