/* One TCP connection of a guest. Every wait has a limit; what is returned is valid until the call returns. */
#ifndef TCP_H
#define TCP_H

#include <torvyn.h>

bool tcp_is_open(void);
/* Connects to a name or an address. The manifest must grant it with `network:tcp-connect`. */
bool tcp_open(torvyn_bytes host, uint16_t port);
bool tcp_send(const void *data, size_t size);
/* What arrived; nothing if the other side closed the connection or stayed silent. */
torvyn_bytes tcp_receive(void);
void tcp_close(void);

#endif
