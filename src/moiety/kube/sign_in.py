"""Signs the requests of one client: who it is, and the certificate that it shows."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

from multidict import CIMultiDict

from moiety.kube.access import Access
from moiety.kube.exec_credential import Credential

UNAUTHORIZED: Final = 401


class SignIn:
    """One client's identity, with the present credential of its sign-in program if it has one."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.ssl: ssl.SSLContext | None = access.ssl
        """What the next connection is made with; None: plain HTTP."""
        self._credential: Credential | None = None

    async def headers(self) -> CIMultiDict[str]:
        """The headers of a request; runs the sign-in program if it is time to.

        Raises ClusterRefusal if there is no token, or the program does not give one.
        """
        access, token = self.access, ""
        if access.session is not None:
            credential = await asyncio.to_thread(access.session.credential)
            if credential.certificate and credential is not self._credential:
                self.ssl = access.with_certificate(credential.certificate, credential.key)
            self._credential, token = credential, credential.token
        found = CIMultiDict(access.headers(token))
        for name, value in access.impersonation:
            found.add(name, value)
        return found

    def is_refused(self, status: int) -> bool:
        """Whether an answer refuses the sign-in program's credential, which is then forgotten."""
        if status != UNAUTHORIZED or self.access.session is None or self._credential is None:
            return False
        self.access.session.refused(self._credential)
        return True
