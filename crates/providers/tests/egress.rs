//! The guard: what it refuses, what it lets through, and that nobody is connected to meanwhile.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use roundsman_providers::egress::{
    Cidr, EgressError, EgressGuard, EgressOptions, Refusal, Resolver, URL_BYTES_MAX,
};

/// Literal addresses and names that must not be connected to, in every spelling that leads there.
pub(crate) const NOT_PUBLIC: [&str; 78] = [
    // IPv4, plainly.
    "http://127.0.0.1/",
    "http://127.255.255.254/",
    "http://0.0.0.0/",
    "http://0.1.2.3/",
    "http://10.0.0.1/",
    "http://10.255.255.255/",
    "http://100.64.0.1/",
    "http://100.127.255.255/",
    "http://169.254.169.254/latest/meta-data/",
    "http://169.254.0.1/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.0.1/",
    "http://192.168.255.255/",
    "http://192.0.0.1/",
    "http://192.0.0.170/",
    "http://192.0.2.1/",
    "http://192.31.196.1/",
    "http://192.88.99.1/",
    "http://198.18.0.1/",
    "http://198.19.255.255/",
    "http://198.51.100.1/",
    "http://203.0.113.1/",
    "http://224.0.0.1/",
    "http://239.255.255.255/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    // IPv4, otherwise: decimal, octal, hexadecimal, short, padded, in other scripts.
    "http://2130706433/",
    "http://017700000001/",
    "http://0177.0.0.1/",
    "http://0x7f000001/",
    "http://0x7f.0.0.1/",
    "http://0x7F.1/",
    "http://127.1/",
    "http://127.0.1/",
    "http://0/",
    "http://127.0.0.1./",
    "http://127.0.0.1:8080/",
    "http://127.000.000.001/",
    "http://%31%32%37.0.0.1/",
    "http://１２７.0.0.1/",
    "http://127。0。0。1/",
    "http:\\\\127.0.0.1\\",
    "http:127.0.0.1",
    " http://127.0.0.1 ",
    "http://127.0.0.1#@example.com/",
    "http://127.0.0.1?@example.com/",
    "HTTP://127.0.0.1/",
    "http://2852039166/",
    "http://0xa9fea9fe/",
    // IPv6.
    "http://[::1]/",
    "http://[::]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[fe80::1]/",
    "http://[febf::1]/",
    "http://[fec0::1]/",
    "http://[fc00::1]/",
    "http://[fd00:ec2::254]/",
    "http://[ff02::1]/",
    "http://[100::1]/",
    "http://[2001:db8::1]/",
    "http://[3fff::1]/",
    "http://[2001:2::1]/",
    "http://[2001:10::1]/",
    "http://[5f00::1]/",
    "http://[4000::1]/",
    // IPv4 within IPv6: mapped, compatible, 6to4, NAT64, Teredo.
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::ffff:169.254.169.254]/",
    "http://[::127.0.0.1]/",
    "http://[2002:7f00:1::]/",
    "http://[2002:a00:1::1]/",
    "http://[64:ff9b::127.0.0.1]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[64:ff9b:1::8.8.8.8]/",
    "http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/",
    "http://[2001:0::1]/",
    "http://metadata.google.internal/computeMetadata/v1/",
];

pub(crate) const LOCAL_NAMES: [&str; 8] = [
    "http://localhost/",
    "http://LocalHost:8080/",
    "http://localhost./",
    "http://localhost../",
    "http://a.b.localhost/",
    "http://a.localhost./",
    "http://metadata.google.internal./",
    "http://Metadata.Google.Internal/",
];

const PUBLIC: [&str; 8] = [
    "http://8.8.8.8/",
    "https://1.1.1.1:8443/hook?x=1",
    "http://100.63.255.255/",
    "http://172.32.0.1/",
    "http://[2606:4700:4700::1111]/",
    "http://[::ffff:8.8.8.8]/",
    "http://[64:ff9b::8.8.8.8]/",
    "http://[2001:4860:4860::8888]/",
];

#[test]
fn addresses_that_are_not_public_are_refused_in_every_spelling() {
    let guard = EgressGuard::new(EgressOptions::default());
    for url in NOT_PUBLIC.iter().chain(&LOCAL_NAMES) {
        let refusal = guard.check(url).err();
        assert!(
            matches!(refusal, Some(Refusal::NotPublic | Refusal::NotAUrl)),
            "{url}: {refusal:?}"
        );
    }
    for url in PUBLIC {
        assert!(guard.check(url).is_ok(), "{url}");
    }
}

#[test]
fn only_plain_http_is_spoken() {
    let options = EgressOptions { ports_denied: vec![25, 6379], ..EgressOptions::default() };
    let guard = EgressGuard::new(options);
    let long = format!("https://a.example/{}", "x".repeat(URL_BYTES_MAX));
    for (url, refusal) in [
        ("ftp://a.example/", Refusal::Scheme),
        ("file:///etc/passwd", Refusal::Scheme),
        ("gopher://a.example:70/_x", Refusal::Scheme),
        ("unix:///run/docker.sock", Refusal::Scheme),
        ("javascript:alert(1)", Refusal::Scheme),
        ("data:text/plain,x", Refusal::Scheme),
        ("", Refusal::NotAUrl),
        ("a.example", Refusal::NotAUrl),
        ("http://", Refusal::NotAUrl),
        ("http://a b/", Refusal::NotAUrl),
        ("http://[::1%25eth0]/", Refusal::NotAUrl),
        ("http://1.2.3.4.5/", Refusal::NotAUrl),
        ("http://256.1.1.1/", Refusal::NotAUrl),
        ("http://./", Refusal::NotAUrl),
        ("http://a.example:99999/", Refusal::NotAUrl),
        ("http://user@a.example/", Refusal::Credentials),
        ("http://user:pass@a.example/", Refusal::Credentials),
        ("http://a.example@127.0.0.1/", Refusal::Credentials),
        ("http://:pass@a.example/", Refusal::Credentials),
        ("http://a.example:0/", Refusal::Port),
        ("http://a.example:25/", Refusal::Port),
        ("http://a.example:6379/", Refusal::Port),
        (&long, Refusal::TooLong),
    ] {
        assert_eq!(guard.check(url).err(), Some(refusal), "{url}");
    }
    assert!(guard.check("https://a.example:8443/a?b=c#d").is_ok());
}

#[tokio::test]
async fn one_bad_address_of_a_name_refuses_them_all() {
    let (guard, resolver) = scripted(
        EgressOptions::default(),
        &[
            ("good.example", &["93.184.216.34", "2606:2800:220:1::1"]),
            ("inside.example", &["10.0.0.1"]),
            ("mixed.example", &["93.184.216.34", "127.0.0.1"]),
            ("mapped.example", &["::ffff:10.0.0.1"]),
            ("nat64.example", &["64:ff9b::7f00:1"]),
            ("empty.example", &[]),
        ],
    );
    let refused = Err(EgressError::Refused(Refusal::NotPublic));
    for name in ["inside", "mixed", "mapped", "nat64"] {
        let url = format!("https://{name}.example/");
        assert_eq!(guard.resolve(&url).await, refused, "{name}");
    }
    for name in ["empty", "unknown"] {
        let error = guard.resolve(&format!("https://{name}.example/")).await.unwrap_err();
        assert!(matches!(error, EgressError::Unresolved(_)), "{error}");
    }
    resolver.asked.lock().unwrap().clear();
    let target = guard.resolve("https://Good.example.:8443/a?b").await.unwrap();
    assert_eq!(target.name, "good.example");
    let addresses: Vec<String> = target.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["93.184.216.34:8443", "[2606:2800:220:1::1]:8443"]);
    // Once, and without the dot that would make it another name to a certificate.
    assert_eq!(*resolver.asked.lock().unwrap(), ["good.example"]);
}

#[tokio::test]
async fn what_is_refused_by_its_spelling_is_never_resolved() {
    let (guard, resolver) = scripted(EgressOptions::default(), &[]);
    for url in NOT_PUBLIC.iter().chain(&LOCAL_NAMES) {
        assert!(matches!(guard.resolve(url).await, Err(EgressError::Refused(_))), "{url}");
    }
    assert!(resolver.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn an_operator_may_allow_blocks() {
    let allow = ["10.1.0.0/16", "127.0.0.0/8", "fd00::/8"];
    let allow = allow.map(|block| block.parse::<Cidr>().unwrap()).to_vec();
    let options = EgressOptions { allow, ..EgressOptions::default() };
    let (guard, _) = scripted(
        options,
        &[
            ("inside.example", &["10.1.2.3", "fd00::7"]),
            ("beside.example", &["10.1.2.3", "10.2.0.1"]),
            ("localhost", &["127.0.0.1", "::1"]),
        ],
    );
    for url in ["http://10.1.255.1/", "http://[::ffff:127.0.0.1]/", "http://inside.example/"] {
        assert!(guard.resolve(url).await.is_ok(), "{url}");
    }
    for url in ["http://10.2.0.1/", "http://beside.example/", "http://[::1]/", "http://localhost/"]
    {
        let refused = Err(EgressError::Refused(Refusal::NotPublic));
        assert_eq!(guard.resolve(url).await, refused, "{url}");
    }
    assert!(guard.resolve("http://metadata.google.internal/").await.is_err());
}

/// Answers from a table and remembers what it was asked.
pub(crate) struct ScriptedResolver {
    table: HashMap<String, Vec<IpAddr>>,
    pub(crate) asked: Mutex<Vec<String>>,
}

#[async_trait]
impl Resolver for ScriptedResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.lock().unwrap().push(name.to_owned());
        self.table.get(name).cloned().ok_or_else(|| io::Error::other("no such name"))
    }
}

pub(crate) fn scripted(
    options: EgressOptions,
    table: &[(&str, &[&str])],
) -> (EgressGuard, Arc<ScriptedResolver>) {
    let entry = |(name, addresses): &(&str, &[&str])| {
        let addresses = addresses.iter().map(|address| address.parse().unwrap());
        ((*name).to_owned(), addresses.collect())
    };
    let table = table.iter().map(entry).collect();
    let resolver = Arc::new(ScriptedResolver { table, asked: Mutex::default() });
    (EgressGuard::with_resolver(options, resolver.clone()), resolver)
}
