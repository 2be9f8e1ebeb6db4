// See context.h. Included by c10d's header, which uses nothing of it.
#pragma once
