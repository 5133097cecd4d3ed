//! An RSA key that is made when it is needed. Its primes are ones that everybody knows, so it opens
//! nothing, it costs no search, and no key is kept anywhere.

use std::sync::LazyLock;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use num_bigint::BigUint;
use ring::signature::{KeyPair, RsaKeyPair, RsaPublicKeyComponents};
use yasna::models::ObjectIdentifier;
use yasna::{DERWriter, construct_der};

/// What stands in the first and the last line of its text.
const LABEL: &str = "PRIVATE KEY";
const LINE_CHARS: usize = 64;
/// rsaEncryption of PKCS #1.
const RSA_ENCRYPTION: [u64; 7] = [1, 2, 840, 113_549, 1, 1, 1];
const EXPONENT: u32 = 65_537;

/// The key in PKCS #8.
static KEY: LazyLock<Vec<u8>> = LazyLock::new(made);

/// The private key as the files of service accounts have it.
pub(super) fn private_pem() -> String {
    let encoded = BASE64_STANDARD.encode(&*KEY);
    let mut text = format!("-----BEGIN {LABEL}-----\n");
    for line in encoded.as_bytes().chunks(LINE_CHARS) {
        text.extend(line.iter().map(|byte| char::from(*byte)));
        text.push('\n');
    }
    text + &format!("-----END {LABEL}-----\n")
}

/// What whoever checks signatures knows.
pub(super) fn public() -> RsaPublicKeyComponents<Vec<u8>> {
    let pair = RsaKeyPair::from_pkcs8(&KEY).expect("the key is one");
    pair.public_key().into()
}

fn made() -> Vec<u8> {
    let one = BigUint::from(1u32);
    // The largest prime below 2^1024, and the smallest above 2^1023.
    let p: BigUint = (&one << 1024u32) - 105u32;
    let q: BigUint = (&one << 1023u32) + 1155u32;
    let (p_less, q_less) = (&p - &one, &q - &one);
    let e = BigUint::from(EXPONENT);
    let d = e.modinv(&(&p_less * &q_less)).expect("the exponent divides neither");
    let q_inverse = q.modinv(&p).expect("primes");
    let (d_p, d_q) = (&d % &p_less, &d % &q_less);
    let numbers = [&p * &q, e, d, p, q, d_p, d_q, q_inverse];
    let key = construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_u8(0);
            for number in &numbers {
                number_to(writer.next(), number);
            }
        });
    });
    construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_u8(0);
            writer.next().write_sequence(|writer| {
                writer.next().write_oid(&ObjectIdentifier::from_slice(&RSA_ENCRYPTION));
                writer.next().write_null();
            });
            writer.next().write_bytes(&key);
        });
    })
}

fn number_to(writer: DERWriter<'_>, number: &BigUint) {
    writer.write_bigint_bytes(&number.to_bytes_be(), true);
}
