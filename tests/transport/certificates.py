"""A certificate and its private key, issued for the tests."""

from __future__ import annotations

from pathlib import Path

import trustme


class Files:
    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        self.cert, self.key, self.trusted = (
            str(folder / name) for name in ("cert.pem", "key.pem", "ca.pem")
        )
        made = authority.issue_cert("localhost", "127.0.0.1")
        made.private_key_pem.write_to_path(self.key)
        for index, part in enumerate(made.cert_chain_pems):
            part.write_to_path(self.cert, append=index > 0)
        authority.cert_pem.write_to_path(self.trusted)
        Path(self.key).chmod(0o600)

    @property
    def settings(self) -> dict[str, str]:
        return {"tls_cert": self.cert, "tls_key": self.key}
