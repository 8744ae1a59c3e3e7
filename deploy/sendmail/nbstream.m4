dnl To be added to sendmail.mc, in front of the MAILER lines: Sendmail asks nbstream about each message.
dnl The socket is listeners.milter.listen. F=T: while nbstream is away, clients are asked to come again (451). Without
dnl `F=T, ' mail is accepted unchecked then. T=: nbstream may take five minutes for a message, as clients wait longer.
INPUT_MAIL_FILTER(`nbstream', `S=local:/run/nbstream/milter.sock, F=T, T=C:30s;S:30s;R:30s;E:5m')dnl
