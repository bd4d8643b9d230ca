// A key and a certificate for "localhost" that signs itself, made at run time.
#pragma once

#include <cstdio>
#include <memory>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "tls_stream.h"

namespace tls {

struct key_deleter {
  void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
  void operator()(EVP_PKEY_CTX* p) const { EVP_PKEY_CTX_free(p); }
  void operator()(X509* p) const { X509_free(p); }
};
using key = std::unique_ptr<EVP_PKEY, key_deleter>;
using certificate = std::unique_ptr<X509, key_deleter>;

inline key make_key() {
  const std::unique_ptr<EVP_PKEY_CTX, key_deleter> c(EVP_PKEY_CTX_new_id(EVP_PKEY_EC, nullptr));
  EVP_PKEY* made = nullptr;
  if (c == nullptr || EVP_PKEY_keygen_init(c.get()) <= 0 ||
      EVP_PKEY_CTX_set_ec_paramgen_curve_nid(c.get(), NID_X9_62_prime256v1) <= 0 ||
      EVP_PKEY_keygen(c.get(), &made) <= 0) {
    fail("key");
  }
  return key(made);
}

inline certificate make_certificate(EVP_PKEY* signer) {
  constexpr long kDay = 24 * 3600;
  certificate c(X509_new());
  X509_NAME* name = X509_get_subject_name(c.get());
  X509V3_CTX ctx;
  X509V3_set_ctx_nodb(&ctx);
  X509V3_set_ctx(&ctx, c.get(), c.get(), nullptr, nullptr, 0);
  X509_EXTENSION* names = X509V3_EXT_conf_nid(nullptr, &ctx, NID_subject_alt_name, "DNS:localhost");
  const bool made =
      names != nullptr && X509_set_version(c.get(), 2) == 1 &&
      ASN1_INTEGER_set(X509_get_serialNumber(c.get()), 1) == 1 &&
      X509_gmtime_adj(X509_getm_notBefore(c.get()), -kDay) != nullptr &&
      X509_gmtime_adj(X509_getm_notAfter(c.get()), 30 * kDay) != nullptr &&
      X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                 reinterpret_cast<const unsigned char*>("localhost"), -1, -1,
                                 0) == 1 &&
      X509_set_issuer_name(c.get(), name) == 1 && X509_set_pubkey(c.get(), signer) == 1 &&
      X509_add_ext(c.get(), names, -1) == 1 && X509_sign(c.get(), signer, EVP_sha256()) != 0;
  X509_EXTENSION_free(names);
  if (!made) fail("certificate");
  return c;
}

inline shared_settings make_server_context(EVP_PKEY* k, X509* c) {
  shared_settings s(SSL_CTX_new(TLS_server_method()));
  if (s == nullptr || SSL_CTX_set_min_proto_version(s.get(), TLS1_2_VERSION) != 1 ||
      SSL_CTX_use_certificate(s.get(), c) != 1 || SSL_CTX_use_PrivateKey(s.get(), k) != 1) {
    fail("TLS context");
  }
  return s;
}

// Trusts whoever shows this certificate, or one that it has signed; none: nobody.
inline shared_settings make_client_context(X509* trusted) {
  shared_settings s(SSL_CTX_new(TLS_client_method()));
  if (s == nullptr || SSL_CTX_set_min_proto_version(s.get(), TLS1_2_VERSION) != 1 ||
      (trusted != nullptr && X509_STORE_add_cert(SSL_CTX_get_cert_store(s.get()), trusted) != 1)) {
    fail("TLS context");
  }
  return s;
}

inline void write_certificate(const char* path, X509* c) {
  std::FILE* f = std::fopen(path, "we");
  const bool written = f != nullptr && PEM_write_X509(f, c) == 1;
  if (f == nullptr || std::fclose(f) != 0 || !written)
    throw error(std::string("cannot write ") + path);
}

inline certificate read_certificate(const char* path) {
  std::FILE* f = std::fopen(path, "re");
  certificate c(f != nullptr ? PEM_read_X509(f, nullptr, nullptr, nullptr) : nullptr);
  if (f != nullptr) std::fclose(f);
  if (c == nullptr) throw error(std::string("no certificate in ") + path);
  return c;
}

}  // namespace tls
